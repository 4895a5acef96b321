"""The parts of a release that need no compiler; packaging/release.sh calls it.

    release.py plugins INSTALLED FOLDER    the archive of the plugins that `make install DESTDIR=INSTALLED` wrote
    release.py finish FOLDER EPOCH         notes, bill of materials (SPDX 2.3) and SHA256SUMS of the files in FOLDER
    release.py heard WET WANTED            fails unless WET is the beginning of WANTED, but for rounding to 16 bits

A plugin in the archive has copies of the shared libraries that it needs, in libs/ beside it, as a wheel has. Cairo and
X11, which only the window needs, are those of the desktop.

    haloconv-plugins-VERSION-MACHINE/lv2/haloconv.lv2/{haloconv.so, libs/, ...}
                                     clap/haloconv/{haloconv.clap, libs/}
                                     vst3/haloconv.vst3/Contents/MACHINE-linux/{haloconv.so, libs/}, ...
                                     licenses/, README.txt: where the folders are copied to
"""

import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/python"))
import haloconv_build as wheels  # noqa: E402

PUGL = pathlib.Path("/usr/share/dpf/dgl/src/pugl-upstream")  # its sources are compiled into the window
ROW = re.compile(r"^(\S+): (\S.*?); (?:Debian source package (\S+) (\S+); (\S*)|(.*))$", re.M)  # of LIBRARIES.txt
README = """\
haloconv {version}: LV2, CLAP and VST3 plugins for Linux on {machine}

mkdir -p ~/.lv2 ~/.clap ~/.vst3
cp -r lv2/* ~/.lv2; cp -r clap/* ~/.clap; cp -r vst3/* ~/.vst3

The masks are inside. The window needs Cairo and X11, which desktops have. licenses/ has the licences.
"""


def plugins(installed, folder):
    """Write the archive, and return its path. The same files and SOURCE_DATE_EPOCH give the same bytes."""
    module = installed / "lv2/haloconv.lv2/haloconv.so"
    machine = wheels.machine_of(module)
    shared, archives = wheels.held([module], True)
    libs = {wheels.own_name(name): wheels.renamed(path.read_bytes(), shared) for name, path in shared.items()}
    files = {}
    for kind, at in [("lv2", "lv2"), ("clap", "clap/haloconv"), ("vst3", "vst3")]:
        for path in sorted(path for path in (installed / kind).rglob("*") if path.is_file()):
            name = f"{at}/{path.relative_to(installed / kind)}"
            files[name] = path.read_bytes()
            if wheels.machine_of(path):
                files[name] = wheels.renamed(files[name], shared)
                files.update({f"{os.path.dirname(name)}/libs/{lib}": data for lib, data in libs.items()})
    files["README.txt"] = README.format(version=wheels.version(), machine=machine).encode()
    texts = wheels.licences([*shared.values(), *archives, *[PUGL][:PUGL.exists()]], "archive", "the folders libs/")
    texts["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files.update({f"licenses/{name}": text for name, text in texts.items()})
    base = f"haloconv-plugins-{wheels.version()}-{machine}"
    path = folder / f"{base}.tar.xz"
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:  # finds the masks again
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mtime = len(files[name]), int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
            entry.mode = 0o755 if files[name][:4] == b"\x7fELF" else 0o644
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(files[name]))
    return path


# ---- bill of materials, notes, sums ----------------------------------------------------------------------------------
def notes():
    """The first section of NEWS.md."""
    return re.search(r"^## .*?(?=^## |\Z)", (ROOT / "NEWS.md").read_text(), re.M | re.S)[0].rstrip() + "\n"


def members(path):
    """The licence files of a wheel or of an archive of plugins, {name: text}; none of another file."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name.rsplit("/", 1)[1]: wheel.read(name).decode() for name in wheel.namelist()
                    if "/licenses/" in name}
    if "-plugins-" in path.name:
        with tarfile.open(path) as archive:
            return {name.rsplit("/", 1)[1]: archive.extractfile(name).read().decode() for name in archive.getnames()
                    if "/licenses/" in name}
    return {}


def spdx_id(*words):
    return "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", "-".join(words))


def package(identity, name, version, licence, **fields):
    return {"SPDXID": identity, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", **fields}


def bill_of_materials(folder, epoch):
    """An SPDX 2.3 document: each file, and the libraries that it holds, as LIBRARIES.txt in it lists them."""
    packages, relations, extracted = {}, [], {}
    files = sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".deb", ".gz", ".xz"))
    for path in files:
        identity, texts = spdx_id("File", path.name), members(path)
        rows = ROW.findall(texts.get("LIBRARIES.txt", ""))
        if path.suffix == ".deb":
            built = subprocess.run(["dpkg-deb", "-f", path, "Static-Built-Using"], stdout=subprocess.PIPE, check=True)
            rows = [("pugl-upstream", "ISC", source, version, "", "")
                    for source, version in re.findall(r"(dpf\S*) \(= ([^\s)]+)\)", built.stdout.decode())]
        for name, licence, source, version, home, other in rows:
            version = version or (re.findall(r"cuda-([\d.]+)", other) or ["NOASSERTION"])[0]
            held = spdx_id("Library", name, version)
            more = {"sourceInfo": f"built from Debian's source package {source}", "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{source}@{version}?arch=source"}]} if source else {}
            if home:
                more["homepage"] = home
            packages[held] = package(held, name, version, licence, **more)
            relations.append({"spdxElementId": identity, "relationshipType": "CONTAINS", "relatedSpdxElement": held})
            for reference in re.findall(r"LicenseRef-[\w.-]+", licence):
                found = [text for file, text in texts.items() if file.startswith(name.split(".")[0])]
                extracted[reference] = found[0] if found else "NOASSERTION"
        whole = " AND ".join(["MIT", *sorted({row[1] for row in rows} - {"MIT"})])
        packages[identity] = package(
            identity, path.name, path.name.split("-")[1] if path.suffix == ".whl" else wheels.version(), whole,
            packageFileName=path.name,
            checksums=[{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}])
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    sums = hashlib.sha256("".join(packages[spdx_id("File", path.name)]["checksums"][0]["checksumValue"]
                                  for path in files).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"haloconv-{wheels.version()}",
            "documentNamespace": f"https://haloconv.invalid/spdx/haloconv-{wheels.version()}-{sums[:16]}",
            "creationInfo": {"created": created, "creators": ["Tool: haloconv-packaging-release.py"]},
            "hasExtractedLicensingInfos": [{"licenseId": name, "extractedText": text}
                                           for name, text in sorted(extracted.items())],
            "packages": [packages[name] for name in sorted(packages)],
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                               "relatedSpdxElement": spdx_id("File", path.name)} for path in files]
            + sorted(relations, key=lambda row: sorted(row.items()))}


def finish(folder, epoch):
    (folder / "release-notes.md").write_text(notes())
    bill = json.dumps(bill_of_materials(folder, epoch), indent=1, ensure_ascii=False)
    (folder / f"haloconv-{wheels.version()}.spdx.json").write_text(bill + "\n")
    paths = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (folder / "SHA256SUMS").write_text("".join(sums))


def heard(wet, wanted):
    import numpy as np
    import soundfile
    got, want = (soundfile.read(path, always_2d=True)[0] for path in (wet, wanted))
    assert len(got) and got.shape[1] == want.shape[1], f"{got.shape} is not {want.shape}"
    want = want[:len(got)]
    error, peak = np.abs(got[:len(want)] - want).max(), np.abs(want).max()
    print(f"peak {peak:.3f}, difference {error:.6f}, {len(got)} frames")
    assert peak > 0.05 and error < 1e-3, "another sound"


def main(command, *arguments):
    if command == "plugins":
        print(plugins(*map(pathlib.Path, arguments)))
    elif command == "finish":
        finish(pathlib.Path(arguments[0]), int(arguments[1]))
    elif command == "heard":
        heard(*arguments)
    else:
        raise SystemExit("release.py: plugins, finish or heard")


if __name__ == "__main__":
    main(*sys.argv[1:])
