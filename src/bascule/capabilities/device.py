"""`device.info` and `device.status`: what this machine is, and how it is doing (psutil).

Nothing is changed and nothing secret is shown: no users, no addresses, no process lists.
"""

import asyncio
import math
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil

from bascule import __version__
from bascule.node.node import Back
from bascule.node.terms import Call, Completed, Effect, JsonObject, JsonValue, Operation, Outcome

CPU_SAMPLE: Final = 0.2
"""Seconds over which CPU use is measured: long enough to mean something, short enough to wait for."""

_NUMBER: Final[JsonObject] = {"type": "number"}
_TEXT: Final[JsonObject] = {"type": "string"}
_NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": False}


def _object(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties)}


_SPACE: Final = _object(totalBytes=_NUMBER, usedBytes=_NUMBER, percent=_NUMBER)

_INFO: Final = Operation(
    name="device.info",
    title="Device information",
    description="What machine this is: host name, operating system, kernel, processor, memory, start time.",
    arguments=_NO_ARGUMENTS,
    effect=Effect.READ,
    result=_object(
        hostname=_TEXT,
        system=_TEXT,
        distribution=_TEXT,
        kernel=_TEXT,
        architecture=_TEXT,
        processor=_TEXT,
        cpuCount=_NUMBER,
        memoryBytes=_NUMBER,
        bootedAt=_TEXT,
        pythonVersion=_TEXT,
        basculeVersion=_TEXT,
    ),
)

_STATUS: Final = Operation(
    name="device.status",
    title="Device status",
    description="How the machine is doing now: CPU use, load, memory, swap, disks, temperatures, time since start.",
    arguments=_NO_ARGUMENTS,
    effect=Effect.READ,
    result=_object(
        cpuPercent=_NUMBER,
        load=_object(one=_NUMBER, five=_NUMBER, fifteen=_NUMBER),
        memory=_SPACE,
        swap=_SPACE,
        disks={"type": "array", "items": _object(mount=_TEXT, totalBytes=_NUMBER, usedBytes=_NUMBER, percent=_NUMBER)},
        temperatures={"type": "array", "items": _object(sensor=_TEXT, celsius=_NUMBER)},
        uptimeSeconds=_NUMBER,
    ),
)


class Device:
    """Two reads of the machine itself."""

    category = "device"

    def operations(self) -> Sequence[Operation]:
        """Return both."""
        return (_INFO, _STATUS)

    def can_handle(self, name: str) -> bool:
        """Whether `name` is one of them."""
        return name in _READERS

    async def execute(self, call: Call, back: Back) -> Outcome:
        """Read, in a thread: a stuck mount must not stop the controller."""
        return Completed(await asyncio.to_thread(_READERS[call.operation.name]))

    async def plan(self, call: Call) -> JsonValue:
        """Return what is read: reads have no previews of their own."""
        return {"read": call.operation.name}


def info() -> JsonObject:
    """Return what machine this is."""
    return {
        "hostname": socket.gethostname(),
        "system": platform.system(),
        "distribution": _distribution(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cpuCount": os.cpu_count() or 0,
        "memoryBytes": psutil.virtual_memory().total,
        "bootedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(psutil.boot_time())),
        "pythonVersion": platform.python_version(),
        "basculeVersion": __version__,
    }


def status() -> JsonObject:
    """Return how the machine is doing."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    one, five, fifteen = psutil.getloadavg()
    return {
        "cpuPercent": psutil.cpu_percent(interval=CPU_SAMPLE),
        "load": {"one": round(one, 2), "five": round(five, 2), "fifteen": round(fifteen, 2)},
        "memory": {"totalBytes": memory.total, "usedBytes": memory.used, "percent": memory.percent},
        "swap": {"totalBytes": swap.total, "usedBytes": swap.used, "percent": swap.percent},
        "disks": _disks(),
        "temperatures": _temperatures(),
        "uptimeSeconds": _uptime(),
    }


def _uptime() -> int:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return int(time.clock_gettime(time.CLOCK_BOOTTIME))
    return max(0, int(datetime.now(UTC).timestamp() - psutil.boot_time()))  # other systems tell the start alone


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return f"{platform.system()} {platform.version()}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor()
    return platform.processor()


def _disks() -> list[JsonObject]:
    disks = []
    for partition in psutil.disk_partitions(all=False):
        try:
            usage = psutil.disk_usage(partition.mountpoint)
        except OSError:
            continue  # a medium that is not in, a mount of another user
        space = {"totalBytes": usage.total, "usedBytes": usage.used, "percent": usage.percent}
        disks.append({"mount": partition.mountpoint, **space})
    return disks


def _temperatures() -> list[JsonObject]:
    read: Callable[[], dict[str, Any]] = getattr(psutil, "sensors_temperatures", dict)
    return [
        {"sensor": f"{chip} {reading.label}".strip(), "celsius": reading.current}
        for chip, readings in read().items()
        for reading in readings
        if reading.current is not None and math.isfinite(reading.current)  # a broken sensor reads NaN
    ]


_READERS: Final[dict[str, Callable[[], JsonObject]]] = {"device.info": info, "device.status": status}
