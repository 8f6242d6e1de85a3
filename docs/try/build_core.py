"""What the page in this folder needs, made when the site is built: kdey's core and real scores.

The C++ core is compiled to WebAssembly by the Zig of the package ``ziglang`` (dependency group
``site``), without threads and exceptions: ``parallel.hpp`` and ``guard.hpp`` beside this file
replace those of ``src/native``. Without Zig the site is built all the same, and the page says what
is missing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey.datasets.loading import bean_rows

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src" / "native"
#: Compiled cores are kept here, by a digest of what they are made of.
CACHE = HERE.parents[1] / "build" / "try"
EXPORTS = ("malloc", "free", "kdey_class_log_sums", "kdey_scale_rows", "kdey_solve_mixture")
#: As in CMakeLists.txt, but for size; browsers have had vectors of 128 bits since 2021.
OPTIONS = (
    "-target wasm32-wasi -mexec-model=reactor -msimd128 -std=c++17 -Oz -flto -s -fno-exceptions "
    "-fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=fast -fvisibility=hidden "
    "-DKDEY_ISA=baseline -DKDEY_ISA_baseline=1"
)
#: Of the kernels, and the number of labelled beans of the first part of the page.
BANDWIDTH, LABELLED = 0.1, 900
MISSING = (
    "kdey's core is missing on this copy of the page: the site was built without the Zig compiler. "
    "`make docs` installs it (the package ziglang), and builds the whole page."
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the scripts before the pages, and name them on the page."""
    app.connect("builder-inited", lambda app: write(Path(app.outdir, "_static", "try")))
    app.connect("html-page-context", _add_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _add_files(app: Sphinx, page: str, *_: object) -> None:
    if page == "try/index":
        app.add_css_file("try/try.css")
        for name in ("core.js", "try.js"):
            app.add_js_file(f"try/{name}", loading_method="defer")


def write(folder: Path) -> None:
    """Write what the page loads to a folder of the site."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("try.js", "try.css"):
        shutil.copyfile(HERE / name, folder / name)
    (folder / "core.js").write_text(core_script(compiled_core()), encoding="utf-8")


def core_script(core: Path | None) -> str:
    """Return the script that holds the core, as gzip in base64, and the data of the page."""
    packed = None if core is None else gzip.compress(core.read_bytes(), 9, mtime=0)
    content = {
        "core": None if packed is None else base64.b64encode(packed).decode(),
        "missing": MISSING,
        "bandwidth": BANDWIDTH,
        **bean_scores(),
    }
    return f"globalThis.kdeyTryData = {json.dumps(content)};\n"


def compiled_core() -> Path | None:
    """Return the core as a file of WebAssembly, compiled unless it is there; None without Zig."""
    files = sorted([*NATIVE.rglob("*.[ch]pp"), NATIVE / "kdey.h", *HERE.glob("*.hpp")])
    digest = hashlib.sha256(" ".join([OPTIONS, *EXPORTS]).encode())
    for file in files:
        digest.update(file.read_bytes())
    core = CACHE / f"{digest.hexdigest()[:16]}.wasm"
    if core.exists():
        return core
    ziglang = find_spec("ziglang")
    if ziglang is None or ziglang.origin is None:
        return None
    with tempfile.TemporaryDirectory(prefix="kdey-try-") as name:
        folder = Path(name)
        shutil.copytree(NATIVE, folder, dirs_exist_ok=True)
        for file in HERE.glob("*.hpp"):
            shutil.copy(file, folder)
        sources = sorted([*folder.glob("*.cpp"), *folder.glob("isa/*.cpp")])
        links = [f"-Wl,--export={export}" for export in EXPORTS]
        command = [
            Path(ziglang.origin).with_name("zig"),
            "c++",
            *OPTIONS.split(),
            f"-I{folder}",
            *links,
        ]
        subprocess.run([*command, *sources, "-o", folder / "core.wasm"], check=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "core.wasm", core)
    return core


def bean_scores() -> dict[str, Any]:
    """Return scores of beans for being seker, each by a classifier that has not seen the bean.

    It sees nothing but the area. The page draws which beans are labelled.
    """
    beans = [bean for bean in bean_rows() if bean["variety"] in ("dermason", "seker")]
    area = np.array([[float(bean["area"])] for bean in beans])
    labels = np.array([int(bean["variety"] == "seker") for bean in beans])
    classifier = make_pipeline(StandardScaler(), LogisticRegression())
    scores = cross_val_predict(classifier, area, labels, cv=10, method="predict_proba")[:, 1]
    return {"scores": np.round(scores, 4).tolist(), "labels": labels.tolist(), "labelled": LABELLED}
