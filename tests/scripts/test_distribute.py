"""Programs of several ranks: tests/api/distribute.cpp and the cases of tests/distribute/program.cpp, on 1 to 4 of them, and
mistakes across ranks, each of which must end within seconds with a message that says what is wrong on which rank.

usage: test_distribute.py [CASE...]        "gpus": the cases in which each rank has a simulated GPU, and nothing else
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["RILL_BUILD_ROOT"])
PROGRAM, API = BUILD / "tests/distribute_program", BUILD / "tests/api_distribute"
if not (BUILD / "librill_mpi.so").exists():
    print("skipped: this rill has no librill_mpi")
    sys.exit(77)
if not PROGRAM.exists():
    print("skipped: distribute_program is not built, for it reads .npz files (librill_mpi is there)")
    sys.exit(77)
if not shutil.which("mpirun"):
    print("skipped: there is no mpirun")
    sys.exit(77)

# Open MPI starts neither as root nor more ranks than cores unless it is told to.
ENV = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
CASES = ["values", "long_sums", "many_ranks", "dtypes", "texts", "groups", "forks", "derivatives", "jax", "compositions", "training",
         "overlap", "many_buckets", "compressed", "tables", "same_bits", "meshes", "layers", "vocabulary",
         "started", "started_wrongly", "overlap_in_graphs", "pipelines", "schedules", "shards", "shard_bytes",
         "shards_wrongly", "steps_together", "ring", "tokens", "experts", "layouts", "transformer",
         "batch_norm", "sharded", "gathered_state", "clusters", "joined_metrics", "loop",
         "uneven_batch_norm", "loop_of_some", "loop_on_mesh", "loop_clipped", "loop_mistakes", "estimator",
         "shared_checkpoint", "shared_manager", "evaluator", "placements", "timeline",
         "server_sums", "server_staleness", "server_training", "server_mistakes"]
# Each rank with a simulated GPU: by NCCL, and on_a_gpu without it too. The others are those above with the GPU for default.
GPU_CASES = ["on_a_gpu", "gpus_collectives", "gpus_dtypes", "gpus_streams", "gpus_two", "gpus_begun", "gpus_tapes", "gpus_zero",
             "gpus_nccl_sums", "gpus_shared", "gpus_of_one"]
ON_GPUS_TOO = ["values", "compositions", "overlap", "started", "meshes", "ring", "pipelines", "shards"]
FILES = {"loop", "loop_on_mesh", "loop_clipped", "loop_mistakes", "gathered_state", "shared_checkpoint", "shared_manager", "evaluator",
         "timeline"}  # those that write
# What the message of each mistake says, on 2 ranks if not more are given; each also says the line.
LINE = r"(program|gpus)\.cpp:\d+"
MISTAKES = {
    "returns_early": ["rank 1 (ends|has ended) its Session", "all_reduce"],
    "other_order": ["all_reduce", "all_gather"],
    "one_of_many": [rf"rank {r} calls all_reduce.* while rank 2 calls all_gather" for r in (0, 1, 3, 4)],
    "one_of_many_ends": ["rank 2 (ends|has ended) its Session", "all_reduce"],
    "other_shape": [r"f32\[3\]", r"f32\[4\]"],
    "other_rank_of_tensor": [r"f32\[4\]", r"f32\[2,2\]"],
    "other_dtype": [r"f32\[3\]", r"f64\[3\]"],
    "other_op": ["all_reduce", "broadcast"],
    "other_reduction": [r"\(sum\)", r"\(max\)"],
    "other_root": ["from place 0", "from place 1"],
    "throws": ["rank 1: this rank has had enough"],
    "throws_no_exception": ["rank 1: an exception that is no std::exception"],
    "error_of_rill": [r"rank 1: .*\[add\]"],
    "exits": [r"rank 1: exit\(\) was called"],
    "both_send": ["rank 0 calls send.* rank 1 calls send|rank 1 calls send.* rank 0 calls send"],
    "both_receive": ["rank 0 calls receive.* rank 1 calls receive|rank 1 calls receive.* rank 0 calls receive"],
    "circle_of_sends": ["wait for one another", "rank 0 calls send", "rank 1 calls send", "rank 2 calls send"],
    "nobody_receives": ["send", "rank 1 (ends|has ended) its Session"],
    "receives_other_shape": [r"send of f32\[3\]", r"receive of f32\[4\]"],
    "one_step_more": ["rank 0 (ends|has ended) its Session", "rank 1 calls all_reduce"],
    "branch_by_rank": ["rank 0 (ends|has ended) its Session", "rank 1 calls all_reduce"],
    "other_group": [r"among ranks \[0,1\]", r"among ranks \[1,0\]"],
    "not_in_the_group": ["rank 0 is none of the group's"],
    "forgets_the_tape": ["rank 1 (ends|has ended) its Session", "rank 0 calls all_reduce"],
    "other_model": [r"f32\[3\]", r"f32\[4\]"],
    "never_waited_for": [r"the all_reduce that began at .*program\.cpp:\d+ was never waited for"],
    "lost_before_the_next": [r"the all_reduce that began at .*program\.cpp:\d+ was never waited for"],
    "other_micro_batches": [r"stage 0 has 4 micro-batches \(1F1B\), and stage 1 has 2 \(1F1B\)"],
    "other_stages": [r"send of i64\[14\] among ranks", r"among ranks \[0,1,2\]"],
    "worker_throws": ["rank 1: this worker has had enough", r"rank 0 calls pull of .* while rank 1"],
    "stops": ["has waited 3 s for rank 1"],
    "dies": ["signal 9"],
}
GPU_MISTAKES = {
    "gpus_fail": [r"rank 0 has called all_reduce of f32\[2,500\] \(sum\) on a GPU, and NCCL: remote process",
                  r"rank 1 has called all_reduce of f32\[2,500\] \(sum\) on a GPU, and NCCL: remote process"],
    "gpus_hang": [r"has called all_reduce of f32\[2,500\] \(sum\) on a GPU, and has not ended in 3 s"],
    "gpus_other_place": [r"all_reduce of f32\[300\] \(sum\) on a GPU", r"all_reduce of f32\[300\] \(sum\) \("],
    "gpus_other_shape": [r"f32\[300\]", r"f32\[301\]"],
    "gpus_die": ["signal 9"],
}
RANKS = {"circle_of_sends": 3, "other_stages": 3, "one_of_many": 5, "one_of_many_ends": 5}
# Those that no rank can catch, or of which one rank is gone.
UNCAUGHT = {"throws", "throws_no_exception", "error_of_rill", "exits", "dies", "stops", "returns_early", "not_in_the_group",
            "nobody_receives", "worker_throws", "one_step_more", "one_of_many_ends", "branch_by_rank", "forgets_the_tape",
            "never_waited_for", "other_micro_batches", "other_stages", "gpus_die"}
SECONDS = 20  # for a mistake to end, on a crowded machine; most end in one

# GPU_CASES have a simulated GPU on each rank. Others have none: Meson puts the folder of all libraries that
# a test needs into LD_LIBRARY_PATH, the simulated driver's too.
GPU = {"LD_LIBRARY_PATH": f"{BUILD / 'tests/cuda'}:{BUILD}", "RILL_CACHE_DIR": str(BUILD / "tests/cuda/kernels"),
       "RILL_SIMULATED_TEXTS": str(BUILD / "tests/cuda/texts")}
ENV["LD_LIBRARY_PATH"] = os.pathsep.join(
    folder for folder in ENV.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder and pathlib.Path(folder) != BUILD / "tests/cuda")

faults = []


def run(ranks, *command, limit=240, more=None):
    """Exit status, output and time of a job."""
    began = time.monotonic()
    try:
        env = ENV | (more or {})
        done = subprocess.run(["mpirun", "-n", str(ranks), *map(str, command)], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=limit)
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode() if isinstance(e.stdout, bytes) else e.stdout or "", limit
    return done.returncode, done.stdout, time.monotonic() - began


def check(holds, what, output=""):
    if not holds:
        faults.append(what)
        print(f"FAILED: {what}\n{output[-3000:]}")


asked = sys.argv[1:]
on_gpus = "gpus" in asked
if on_gpus:
    asked.remove("gpus")
    if not (BUILD / "tests/cuda/libcuda.so.1").exists():
        print("skipped: there is no simulated GPU")
        sys.exit(77)
for ranks in (1, 2, 3, 4):
    if not on_gpus and (not asked or "api" in asked):
        status, output, _ = run(ranks, API)
        check(status == 0, f"api_distribute on {ranks}", output)


def cases():
    """Names, and the environment of each."""
    if not on_gpus:
        return [(case, {}) for case in CASES]
    more = {"gpus_shared": {"RILL_SIMULATED_SHARED": "1"}}
    return [("on_a_gpu", GPU | {"RILL_NCCL": "none"})] + [(case, GPU | more.get(case, {})) for case in GPU_CASES + ON_GPUS_TOO]


bits = {}
for case, more in cases():
    for ranks in {"same_bits": (1, 2, 4), "jax": (2, 4), "transformer": (1, 2, 4, 8), "many_ranks": (5, 8, 16)}.get(case, (1, 2, 3, 4)):
        if asked and case not in asked or on_gpus and ranks == 1:
            continue
        with tempfile.TemporaryDirectory() as folder:
            status, output, seconds = run(ranks, PROGRAM, case, *([folder] if case in FILES else []), more=more)
        check(status == 0, f"{case} on {ranks}", output)
        staged = "RILL_NCCL" in more or case == "gpus_shared"
        check(output.count("are exchanged through the host") == staged, f"{case} on {ranks}: what is said of the host", output)
        print(f"{case} on {ranks}: {seconds:.1f} s", flush=True)
        if found := re.search(r"bits \w+ loss \S+", output):
            bits[ranks] = found[0]
if not on_gpus and (not asked or "same_bits" in asked):
    check(len(bits) == 3 and len(set(bits.values())) == 1, f"the same bits on 1, 2 and 4 ranks: {bits}")

for mistake, says in (GPU_MISTAKES if on_gpus else MISTAKES).items():
    if asked and mistake not in asked:
        continue
    ranks, more = RANKS.get(mistake, 2), GPU if on_gpus else {}
    status, output, seconds = run(ranks, PROGRAM, mistake, limit=SECONDS, more=more)
    print(f"{mistake}: {seconds:.1f} s")
    check(status not in (0, None), f"{mistake}: the job ended with {status}", output)
    for pattern in says:
        check(re.search(pattern, output, re.S), f"{mistake}: no message says {pattern!r}", output)
    if mistake not in {"exits", "dies", "gpus_die", "throws", "throws_no_exception"}:
        check(re.search(LINE, output), f"{mistake}: no message names a line", output)
    if mistake in UNCAUGHT:
        continue
    status, output, seconds = run(ranks, PROGRAM, mistake, "caught", limit=SECONDS, more=more)
    for rank in range(ranks):
        check(f"caught on rank {rank}:" in output, f"{mistake}: rank {rank} has no error", output)

if on_gpus:
    print(f"{len(faults)} faults", *faults, sep="\n")
    sys.exit(1 if faults else 0)
if not asked or "kills" in asked:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "distribute"))
    import kills
    found, done = kills.check(str(PROGRAM), 6, int(time.time()), ENV, ranks_of=(2, 4))
    print(f"kills: {done}")
    check(not found, "kills", "\n".join(found))

RILL = BUILD / "command/rill"
if RILL.exists() and (not asked or "launch" in asked):
    def launch(*words):
        done = subprocess.run([RILL, "launch", *map(str, words)], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        return done.returncode, done.stdout
    status, output = launch("-n", 2, "--", PROGRAM, "groups")
    check(status == 0, f"rill launch ends with {status}", output)
    status, output = launch("-n", 2, "--", "sh", "-c", "echo this is rank $OMPI_COMM_WORLD_RANK$PMI_RANK")
    check(all(re.search(rf"^\[.*{r}.*this is rank {r}$", output, re.M) for r in (0, 1)), "rill launch says whose a line is", output)
    status, output = launch("-n", 2, "--", PROGRAM, "throws")
    check(status != 0 and "this rank has had enough" in output, f"a rank that throws ends rill launch with {status}", output)
    status, output = launch("-n", 3, "--show", "--", "./program", "--fast")
    check(status == 0 and re.search(r"mpirun -n 3 .*\./program --fast$", output.strip()), "rill launch --show", output)

print(f"{len(faults)} faults", *faults, sep="\n")
sys.exit(1 if faults else 0)
