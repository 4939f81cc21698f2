"""Manifests judged before a scheduler sees them: Kubernetes and compose YAML, submit files, batch scripts, docker.

Text becomes frozen facts (``read``), facts become findings (``rules``); no cluster is asked and nothing is run.
"""
