"""Make quapy_protocols.npz: positions and prevalences drawn by the protocols of QuaPy 0.2.3.

Run in an environment with quapy==0.2.3 and kdey's dependencies:
``PYTHONPATH=src python tests/frozen/make_quapy_protocols.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import quapy as qp
from quapy.data import LabelledCollection
from quapy.protocol import APP, NPP, UPP, DirichletProtocol

assert qp.__version__ == "0.2.3", qp.__version__
HERE = Path(__file__).parent


def main() -> None:
    """Write quapy_protocols.npz."""
    rng = np.random.default_rng(0)
    labels = np.array(["ant", "bee", "cow"])[rng.choice(3, size=90, p=[0.5, 0.3, 0.2])]
    data = LabelledCollection(np.arange(90.0)[:, None], labels)
    made = {
        "APP": APP(data, sample_size=17, n_prevalences=5, repeats=1, return_type="index"),
        "UPP": UPP(data, sample_size=17, repeats=12, random_state=3, return_type="index"),
        "NPP": NPP(data, sample_size=17, repeats=6, random_state=3, return_type="index"),
        "Dirichlet": DirichletProtocol(
            data, [0.5, 1, 2], sample_size=17, repeats=6, random_state=3, return_type="index"
        ),
    }
    stored = {"labels": labels}
    for name, protocol in made.items():
        positions = list(protocol())
        stored[f"{name}_positions"] = np.array(positions)
        stored[f"{name}_prevalences"] = np.array(
            [data.sampling_from_index(bag).prevalence() for bag in positions]
        )
    np.savez_compressed(HERE / "quapy_protocols.npz", **stored)


if __name__ == "__main__":
    main()
