"""Random calls of every operator and public function, in processes that may die."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))  # entries of operators, layouts
