"""Runs a script with the packages that the provider approved and those that the task brings."""

import glob
import os
import runpy
import sys

sys.path.extend(sorted(glob.glob("/opt/layer")) + sorted(glob.glob("/opt/packages/*")))
sys.argv = sys.argv[1:]
# As Python does: what lies beside a script can be imported.
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
