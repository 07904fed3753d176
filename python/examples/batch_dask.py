#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a model on every .npy file of a folder, spread over the workers of a Dask cluster.

    batch_dask.py MODEL.plan INPUT_NAME FOLDER OUTPUT_FOLDER [SCHEDULER_ADDRESS]

Each worker maps the same plan file, so that the workers of one machine share its pages, and keeps one session. Without an address two
local workers are started.
"""
import sys
from pathlib import Path

import numpy
from distributed import Client, LocalCluster, get_worker

import ouro


def work(plan_path: str, name: str, source: str, target: str) -> str:
    """One file on a worker: the session is made once and kept there."""
    worker = get_worker()
    if getattr(worker, "ouro_path", None) != plan_path:
        worker.ouro_session = ouro.load(plan_path, share=True).session()
        worker.ouro_path = plan_path
    outputs = worker.ouro_session.run({name: numpy.load(source)}, copy=False)
    numpy.savez(target, **{key.replace("/", "_"): value for key, value in outputs.items()})
    return target


def main(arguments: list) -> int:
    if len(arguments) not in (4, 5):
        print(__doc__, file=sys.stderr)
        return 2
    plan, name, folder, target = (Path(arguments[0]).resolve(), arguments[1], Path(arguments[2]), Path(arguments[3]))
    target.mkdir(parents=True, exist_ok=True)
    cluster = None
    if len(arguments) == 4:
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(cluster or arguments[4]) as client:
        files = sorted(folder.glob("*.npy"))
        futures = [client.submit(work, str(plan), name, str(file.resolve()), str((target / f"{file.stem}.npz").resolve()),
                                 pure=False) for file in files]
        for done in client.gather(futures):
            print(done)
    if cluster:
        cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
