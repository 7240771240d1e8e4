# ops/_build.py is written by the build.
version: str
torch_version: str
