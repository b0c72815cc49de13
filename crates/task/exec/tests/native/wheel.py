"""Makes a folder of wheels: a tiny package, and pip as this Python brings it."""

import ensurepip
import glob
import os
import shutil
import sys
import zipfile

folder = sys.argv[1]
files = {
    "tiny.py": "WORD = 'found'\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files["tiny-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
with zipfile.ZipFile(os.path.join(folder, "tiny-1.0-py3-none-any.whl"), "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl")
shutil.copy(glob.glob(bundled)[0], folder)
