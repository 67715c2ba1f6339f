# Each operation of /openapi.json is a case: generated requests get only documented answers.
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from cases import TOKEN, URL, told

program = str(Path(sys.executable).parent / "st")
# Streams without an end, and operations that end the daemon or sign out.
LEFT_OUT = "/v1/(runtime/events|session|events|logs)"
checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
done = subprocess.run(
    [program, "run", f"{URL}/openapi.json", "-H", f"Authorization: Bearer {TOKEN}", "--checks", checks, "--max-examples", "10", "--exclude-path-regex", LEFT_OUT, "--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--report", "junit", "--report-junit-path", "out.xml", "--no-color"],
    capture_output=True,
    text=True,
    timeout=2400,
)
import xml.etree.ElementTree as tree

for case in tree.parse("out.xml").iter("testcase"):
    bad = [each for each in case if each.tag in ("failure", "error")]
    if not any(each.tag == "skipped" for each in case):
        told(case.get("name"), not bad, bad[0].get("message") if bad else "")
