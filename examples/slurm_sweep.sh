#!/bin/sh
# Two methods, three seeds each: six trainings of the digits recipe as one Slurm array, then a table and a picture.
#
#   sh examples/slurm_sweep.sh                            # on the cluster, from a machine with sbatch
#   sh examples/slurm_sweep.sh --partition gpu --gpus 1   # any option of `zerocross compare`
#   sh examples/slurm_sweep.sh here                       # on this machine, two at a time
#
# The command waits for the jobs. Stopped or killed, it takes them over when it is run again; jobs that reach their time
# limit save a checkpoint, and are requeued; a finished training is kept in sweep/runs and not repeated.
# The folder `sweep` must be shared by all nodes. docs/cluster.md has all options.
set -eu

if [ "${1:-}" = here ]; then
  shift
  set -- --jobs 2 "$@"
else
  set -- --cluster slurm --cpus 1 --time 30 --array 6 "$@"
fi

exec zerocross compare --recipe digits --methods filter,bop --seeds 3 --set precision=32 \
  --results sweep/runs --work sweep/work --out sweep/compare "$@"
