"""Running the image on a cluster: a recipe and a site file in; a job of Docker, Kubernetes, HTCondor or Slurm out."""
