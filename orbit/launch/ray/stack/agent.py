"""Stands where Ray's dashboard agent would: says that there are no ports to reach one, and ends with the raylet.

It is run as a file, alone (``python -I -S agent.py SESSION NODE``): 20 ms where the agent takes seconds. What the
raylet waits for is what the agent of Ray without its extra ``default`` does: a file for each port, with -1 in it.
"""

from __future__ import annotations

import os
import sys
import time

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
LOOK_S = 0.5


def main(session: str, node: str) -> None:
    """Write the files, then wait for the raylet to go."""
    raylet = os.getppid()
    for port in PORTS:
        place = os.path.join(session, f"{port}_{node}")
        with open(f"{place}.partial", "w", encoding="ascii") as file:
            file.write("-1")
        os.rename(f"{place}.partial", place)
    while os.getppid() == raylet:
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
