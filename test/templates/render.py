"""Renders templates as the package transformers does: JSON in, one line each; JSON out."""

import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The tag around what an assistant says. Rendering leaves it out."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
)
environment.filters["tojson"] = to_json
environment.globals["raise_exception"] = refuse

for line in sys.stdin:
    asked = json.loads(line)
    now = datetime.datetime.fromtimestamp(asked["now"] / 1000)
    environment.globals["strftime_now"] = now.strftime
    said = []
    for values in asked["all"]:
        try:
            said.append({"text": environment.from_string(asked["source"]).render(**values)})
        except Exception as error:
            said.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(said), flush=True)
