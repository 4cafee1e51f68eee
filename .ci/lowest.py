"""The lowest versions that setup.cfg allows, as a file of constraints for pip.  Tools of tests and documentation are left out."""

import configparser
import re
from pathlib import Path

given = configparser.ConfigParser()
given.read(Path(__file__).parent.parent / "setup.cfg")
asked = given["options"]["install_requires"] + given["options.extras_require"]["all"]
for name, version in sorted(set(re.findall(r"^([\w-]+)>=([\w.]+)", asked, re.MULTILINE))):
    print(f"{name}=={version}")
