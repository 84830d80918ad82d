"""After Ctrl-C, a fork or a new number of threads at any moment, the next call gives correct results."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zerocross.runtime.thread_pool import processors

pytestmark = [
    pytest.mark.skipif(processors() < 2, reason="needs two processors"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals and fork"),
]

START = """
import os, random, signal, sys, threading, time
import numpy as np
from reference.runtime_graphs import Builder
from zerocross.runtime.model import Model

def network(depth, size=8):
    b = Builder(20, size, size)
    x = "x"
    for _ in range(depth):
        x = b.add("hardtanh", b.conv(x, 64, (3, 3), binary=False, padding=(1, 1)))
    return b, b.graph(x)

def interrupt(number, frame):
    raise KeyboardInterrupt

def threads_of_dropped_pools_end():
    over = time.perf_counter() + 60
    while threading.active_count() > 2:
        assert time.perf_counter() < over, threading.enumerate()
        time.sleep(0.05)

signal.signal(signal.SIGALRM, interrupt)
"""

CTRL_C = """
rng = random.Random({seed})
b, graph = network(1, size=2)  # small: most of the time goes to Python
model, x = Model(graph, threads=2), b.batch(7)
whole = model(x)
caught = 0
for _ in range({trials}):
    sizes = [rng.randint(1, 7) for _ in range(5)]
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 8e-3))
    try:
        while True:
            for size in sizes:
                model(x[:size])
            if rng.random() < 0.3:
                time.sleep(0.002)  # the other thread falls asleep
    except KeyboardInterrupt:
        caught += 1
    for size in sizes:
        assert np.array_equal(model(x[:size]), whole[:size])
assert caught == {trials}
threads_of_dropped_pools_end()
time.sleep(0.1)
began = time.process_time()
time.sleep(0.5)
assert time.process_time() - began < 0.1, "idle threads must not poll for half a second"
print("passed")
"""

EVERYWHERE = """
import gc
from pathlib import Path
import zerocross.runtime
ours = str(Path(zerocross.runtime.__file__).parent)

class Interrupt:
    "Raise KeyboardInterrupt before instruction number `at` of the runtime's Python code or of the threading module."

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        if not name.startswith(ours) and (new or name != threading.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

def interrupted(at):
    if new:
        model._idle.clear()
    sys.settrace(Interrupt(at))
    try:
        model(x[:2])
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

b, graph = network(1, size=2)
model, x = Model(graph, threads=2), b.batch(7)
whole = model(x)
signal.alarm(100)
for new in {new}:
    at = 1
    while interrupted(at):
        for size in (2, 7, 2):
            assert np.array_equal(model(x[:size]), whole[:size]), at
        at += {step} if new else 1
    assert at > 20
gc.collect()
threads_of_dropped_pools_end()
print("passed")
"""

LONG = """
b, graph = network(16)
for threads in (1, 2):
    model, x = Model(graph, threads=threads), np.zeros((200_000, 20, 8, 8), np.float32)
    wanted = model(x[:3])
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    began = time.perf_counter()
    try:
        model(x)
        print("done too soon")
    except KeyboardInterrupt:
        pass
    assert time.perf_counter() - began < 5, time.perf_counter() - began
    assert np.array_equal(model(x[:3]), wanted)
print("passed")
"""

NEW_THREADS = """
b, graph = network(1, size=2)
model, x = Model(graph), b.batch(6)
whole = model(x)
errors, over = [], time.perf_counter() + {seconds}

def call():
    while time.perf_counter() < over:
        try:
            assert np.array_equal(model(x), whole)
        except Exception as error:
            errors.append(repr(error))

callers = [threading.Thread(target=call) for _ in range(2)]
for caller in callers:
    caller.start()
while time.perf_counter() < over:
    model.threads = random.choice([1, 2])
for caller in callers:
    caller.join()
assert not errors, errors[:3]
assert np.array_equal(model(x), whole)
print("passed")
"""

FORK = """
b, graph = network(4)
model, x = Model(graph, threads=2), b.batch(6)
whole = model(x)
over = False

def call():
    while not over:
        model(x)

caller = threading.Thread(target=call)
caller.start()
for _ in range({trials}):
    time.sleep(random.uniform(0, 0.01))
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if np.array_equal(model(x), whole) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
over = True
caller.join()
print("passed")
"""


def run_in_new_process(code: str, timeout: float = 120) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", START + code], env=env, capture_output=True, text=True, check=False, timeout=timeout
    )
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stdout + done.stderr


def test_a_call_after_ctrl_c():
    run_in_new_process(CTRL_C.format(seed=0, trials=10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_call_after_a_hundred_times_ctrl_c(seed: int):
    run_in_new_process(CTRL_C.format(seed=seed, trials=100))


def test_a_call_after_an_interrupt_at_any_instruction():
    run_in_new_process(EVERYWHERE.format(new=(False,), step=1))


@pytest.mark.slow
def test_a_call_after_an_interrupt_at_any_instruction_of_a_first_call():
    run_in_new_process(EVERYWHERE.format(new=(False, True), step=7))


def test_ctrl_c_ends_a_long_call():
    run_in_new_process(LONG)


def test_the_number_of_threads_is_set_while_calls_run():
    run_in_new_process(NEW_THREADS.format(seconds=0.5))


@pytest.mark.slow
def test_the_number_of_threads_is_set_again_and_again_while_calls_run():
    run_in_new_process(NEW_THREADS.format(seconds=10))


def test_a_fork_while_another_thread_is_inside_a_call():
    run_in_new_process(FORK.format(trials=3))


@pytest.mark.slow
def test_twenty_forks_while_another_thread_is_inside_a_call():
    run_in_new_process(FORK.format(trials=20))
