"""`python -m benchmarks`: controller, bridge and idle memory, each as a ratio to the bare SDK in the same run.

Rounds alternate so that a slow minute hits both sides. Options: --rounds N, --seconds S, --json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

HERE = Path(__file__).parent
SETTINGS = """\
[controller]
name = "bench-box"
host = "127.0.0.1"
port = 0
[policy]
allow = ["bench.*", "device.*", "system.which"]
"""
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Bench:
    """One run's folder, credentials and sizes."""

    home: Path
    token: str
    rounds: int
    seconds: float

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BASCULE_")}
        return kept | {"BASCULE_TOKEN": self.token, "BASCULE_STATE": str(self.home / "state")}

    @property
    def config(self) -> Path:
        return self.home / "config" / "bascule.toml"


@contextmanager
def running(bench: Bench, *arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, *arguments], env=bench.environment, stdin=stdin, stdout=subprocess.PIPE, cwd=HERE.parent
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise SystemExit("the bridge has no pipes")
    return process.stdin, process.stdout


def port_of(process: subprocess.Popen[bytes]) -> int:
    line = process.stdout.readline() if process.stdout else b""
    if not line.strip().isdigit():
        raise SystemExit(f"a server did not start: {line!r}")
    return int(line)


def bare(bench: Bench, tools: int) -> Any:
    return running(bench, str(HERE / "bare_server.py"), str(tools))


def ours(bench: Bench, tools: int) -> Any:
    return running(bench, "-m", "benchmarks.controller", str(bench.config), str(tools))


def load(bench: Bench, port: int, seconds: float, connections: int = 16) -> dict[str, float]:
    command = [sys.executable, str(HERE / "load.py"), str(port), str(connections), str(seconds), "bench_echo"]
    done = subprocess.run(command, env=bench.environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"load failed: {done.stderr.decode()}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def controller_ratio(bench: Bench, tools: int) -> dict[str, float]:
    """Requests per second at 16 connections, ours over bare: median of the rounds' ratios."""
    with bare(bench, tools) as floor, ours(bench, tools) as real:
        floor_port, real_port = port_of(floor), port_of(real)
        for port in (floor_port, real_port):
            load(bench, port, 1)
        rows = [
            (load(bench, floor_port, bench.seconds), load(bench, real_port, bench.seconds)) for _ in range(bench.rounds)
        ]
    return {
        "bare_per_second": statistics.median(floor["per_second"] for floor, _ in rows),
        "bascule_per_second": statistics.median(real["per_second"] for _, real in rows),
        "ratio": statistics.median(real["per_second"] / floor["per_second"] for floor, real in rows),
    }


def settled_mib(process: subprocess.Popen[bytes]) -> float:
    return float(psutil.Process(process.pid).memory_info().rss) / 1024 / 1024


def converse(process: subprocess.Popen[bytes], calls: int) -> float:
    """Median milliseconds of `calls` sequential tools/call through a bridge's pipes."""
    stdin, stdout = pipes(process)
    took = []
    for number in range(calls):
        params = {"name": "bench_echo", "arguments": {"text": "the same text"}, "_meta": ENVELOPE}
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"
        start = time.perf_counter()
        stdin.write(line)
        stdin.flush()
        answer = stdout.readline()
        took.append((time.perf_counter() - start) * 1000)
        if b"the same text" not in answer or b'"isError":true' in answer:
            raise SystemExit(f"unexpected answer through the bridge: {answer[:300]!r}")
    return statistics.median(took)


def bridge_ratio(bench: Bench, calls: int) -> dict[str, float]:
    """Median latency added over a direct call, ours over the SDK-only reference; and each one's idle memory."""
    with ours(bench, 1) as controller:
        port = port_of(controller)
        url = f"http://127.0.0.1:{port}/mcp"
        pipe = subprocess.PIPE
        with (
            running(bench, "-m", "bascule", "bridge", "--url", url, stdin=pipe) as real,
            running(bench, str(HERE / "reference_bridge.py"), url, stdin=pipe) as floor,
        ):
            converse(real, 50), converse(floor, 50)
            idle = settled_mib(real), settled_mib(floor)
            rows = []
            for _ in range(bench.rounds):
                direct = load(bench, port, 1, connections=1)["p50_ms"]
                rows.append((direct, converse(floor, calls), converse(real, calls)))
    added = [(floor_ms - direct, real_ms - direct) for direct, floor_ms, real_ms in rows]
    return {
        "direct_p50_ms": statistics.median(row[0] for row in rows),
        "reference_added_ms": statistics.median(floor_ms for floor_ms, _ in added),
        "bascule_added_ms": statistics.median(real_ms for _, real_ms in added),
        "ratio": statistics.median(real_ms / floor_ms for floor_ms, real_ms in added),
        "bascule_idle_mib": idle[0],
        "reference_idle_mib": idle[1],
    }


def memory_ratio(bench: Bench) -> dict[str, float]:
    """Idle memory after one call, ours over bare."""
    with bare(bench, 1) as floor, ours(bench, 1) as real:
        for process in (floor, real):
            load(bench, port_of(process), 0.2, connections=1)
        sizes = settled_mib(floor), settled_mib(real)
    return {"bare_mib": sizes[0], "bascule_mib": sizes[1], "ratio": sizes[1] / sizes[0]}


def prepare(home: Path) -> str:
    config = home / "config"
    command = [sys.executable, "-m", "bascule", "init", "--dir", str(config)]
    subprocess.run(command, check=True, capture_output=True)
    (config / "bascule.toml").write_text(SETTINGS)
    return (config / "credentials" / "owner").read_text().strip()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bascule-bench-") as folder:
        home = Path(folder)
        bench = Bench(home, prepare(home), chosen.rounds, chosen.seconds)
        bridge = bridge_ratio(bench, calls=500)
        memory = memory_ratio(bench)
        results = {
            "controller, 1 operation (requests/s at 16 connections)": controller_ratio(bench, 1),
            "controller, 100 operations (requests/s at 16 connections)": controller_ratio(bench, 100),
            "bridge (median latency added to a call)": bridge,
            "controller, idle memory": memory,
            "bridge, idle memory": {
                "bascule_mib": bridge["bascule_idle_mib"],
                "bare_mib": memory["bare_mib"],
                "ratio": bridge["bascule_idle_mib"] / memory["bare_mib"],
            },
        }
    if chosen.json:
        print(json.dumps(results, indent=2))
        return
    for name, figures in results.items():
        print(f"{name}\n  " + "  ".join(f"{key} {value:.2f}" for key, value in figures.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
