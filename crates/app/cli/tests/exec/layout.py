"""Writes the layout of an image: `layout.py FOLDER [PROGRAM...]`; prints the address of its manifest.

It holds these programs with their libraries, and nothing else.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

folder, programs = sys.argv[1], sys.argv[2:]
os.makedirs(os.path.join(folder, "blobs", "sha256"))

files = {}
for program in programs:
    files[program] = os.path.realpath(program)
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", said):
        files[path] = os.path.realpath(path)
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as archive:
    for place, source in sorted(files.items()):
        archive.add(source, arcname=place.lstrip("/"))


def part(kind, data):
    digest = hashlib.sha256(data).hexdigest()
    with open(os.path.join(folder, "blobs", "sha256", digest), "wb") as file:
        file.write(data)
    media = "application/vnd.oci.image." + kind
    return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}


data = layer.getvalue()
names = ["sha256:" + hashlib.sha256(data).hexdigest()]
settings = {"config": {"Cmd": programs}, "rootfs": {"type": "layers", "diff_ids": names}}
manifest = {
    "schemaVersion": 2,
    "config": part("config.v1+json", json.dumps(settings).encode()),
    "layers": [part("layer.v1.tar", data)],
}
manifest = part("manifest.v1+json", json.dumps(manifest).encode())
with open(os.path.join(folder, "index.json"), "w") as file:
    json.dump({"schemaVersion": 2, "manifests": [manifest]}, file)
print(manifest["digest"])
