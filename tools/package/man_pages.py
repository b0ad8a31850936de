#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Manual pages from what the programs say of themselves: --help, and the schema of configuration files.

Usage: man_pages.py BIN_FOLDER VERSION OUT_FOLDER
"""
import json
import os
import re
import subprocess
import sys

SWITCH_ABOUT = """\
weft-switch forwards packets between the ports of the switches that one YAML file describes, as a top-of-rack switch
for RoCEv2 does, and counts all that happens to them. weft.yaml(5) describes the file; weftctl(1) looks into the
running process.

It needs root, or the capabilities that its ports need: none for captures and generated traffic, CAP_NET_RAW and
CAP_NET_ADMIN for network interfaces, more for PCI devices."""

SWITCH_END = [
    ("SIGNALS", [
        ("SIGTERM, SIGINT", "Stops reception, sends what is held (for at most a second), and exits."),
        ("SIGHUP", "Reads the configuration again and applies all that changed, or nothing, as weftctl reload does."),
    ]),
    ("ENVIRONMENT", [
        ("NOTIFY_SOCKET, WATCHDOG_USEC", "Set by systemd: readiness, status and watchdog pings go there."),
        ("JOURNAL_STREAM", "Set by systemd: messages get priorities, and neither colours nor times."),
    ]),
    ("FILES", [
        ("/etc/weft/weft.yaml", "What weft-switch.service runs; weft-switch@NAME.service runs /etc/weft/NAME.yaml."),
        ("/run/weft/weft.sock", "The control service, mode 0600."),
        ("/usr/share/weft/conf", "Working configurations with comments, their schema, and a Grafana dashboard."),
    ]),
]

MANAGER_ABOUT = """\
weft-inc-manager places groups of in-network collectives on the switches of a fabric: it gives each group a tree and
memory on all of its switches or on none, and takes both back when the group's holder is silent for longer than its
lease. It speaks to the control services of the switches, and weft-inc(1) speaks to it.

One YAML file describes the fabric; --check says everything that is wrong with it, with line and column."""

INCD_ABOUT = """\
weft-incd asks weft-inc-manager(8) for the groups of in-network collectives that this host's programs want, renews
their leases, and gives groups back when a program ends or dies. Programs speak to it through libweftinc, over a unix
socket."""

QP_AGENT_ABOUT = """\
weft-qp-agent sees which RDMA queue pairs the programs of this host connect, by BPF programs in the kernel, and tells
weft-switch(8) before their first packet. The switch's configuration names the hosts that may, and their addresses:
option agents of the stage rdma_track."""

YAML_ABOUT = """\
One YAML file describes all switches of a process. Units are part of a key's name: mtu_bytes, rate_mbps, delay_ns.
Unknown keys are mistakes, with a suggestion; weft-switch --check says everything that is wrong with a file, with line
and column. /usr/share/weft/conf has working files to copy from, and schema.json for completion in editors."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def escape(text):
    """Text for a line of its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def header(name, section, version, about):
    return [f'.TH {name.upper().replace("-", chr(92) + "-")} {section} "" "weft {version}" "weft manual"',
            ".SH NAME", f"{escape(name)} \\- {escape(about)}"]


def paragraphs(text):
    return ["\n.PP\n".join("\n".join(escape(line) for line in block.splitlines()) for block in text.split("\n\n"))]


def entry(term, text):
    return [".TP", f"\\fB{escape(term)}\\fR", escape(text) if text else "\\&"]


def see_also(*pages):
    return [".SH SEE ALSO", ",\n".join(f".BR {escape(name)} ({section})" for name, section in pages)
            .replace(",\n", " ,\n")]


class Help:
    """What a program built with CLI11 says: a summary, a usage line, and sections."""

    def __init__(self, command):
        text = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
        head, usage, rest = re.match(r"(.*?)^Usage: (.*?)\n(.*)", text, re.S | re.M).groups()
        self.summary = " ".join(head.split())
        self.usage = re.sub(r"^\S*/", "", usage.strip())
        self.sections = []
        for line in rest.splitlines():
            title = re.match(r"([A-Z][A-Za-z ]*):(?: +(.*))?$", line)
            if title:
                self.sections.append((title[1], [line[len(title[1]) + 1:]] if title[2] else []))
            elif self.sections:
                self.sections[-1][1].append(line)

    def entries(self, title):
        """[(term, text)] of a section of options, positionals or subcommands."""
        out = []
        for line in next((lines for name, lines in self.sections if name == title), []):
            start = re.match(r"  (\S(?:.*?\S)?)(?:  +(\S.*))?$", line)
            if start and not line.startswith("   "):
                out.append([start[1], start[2] or ""])
            elif line.strip() and out:
                out[-1][1] = (out[-1][1] + " " + line.strip()).strip()
        # CLI11 adds its own words for what a value may be.
        return [(re.sub(r"TEXT:\{.*\}", "WORD", re.sub(r":[A-Z]+$", "", term.replace(",--", ", --"))), text)
                for term, text in out]

    def other_sections(self):
        return [(n, lines) for n, lines in self.sections if n not in ("Options", "Positionals", "Subcommands")]


def option_lines(help_text):
    out = []
    for title in ("Positionals", "Options"):
        for term, text in help_text.entries(title):
            if not term.startswith("-h,"):
                out += entry(term, text)
    return out


def verbatim(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return [".nf", *(escape(line) if line else "\\&" for line in lines), ".fi"]


def subcommands(command, help_text):
    """Sections of all subcommands, of theirs too."""
    out = []
    for name, _ in help_text.entries("Subcommands"):
        below = [*command, name.split()[0]]
        sub = Help(below)
        out += [f".SS {escape(' '.join([os.path.basename(below[0]), *below[1:]]))}", escape(sub.summary), ".PP",
                f"\\fB{escape(sub.usage)}\\fR", *option_lines(sub)]
        # A subcommand without examples of its own repeats those above it.
        for section in sub.other_sections():
            if section[0] == "Examples" and section not in help_text.sections:
                out += [".PP", *verbatim([line for line in section[1] if line.startswith("  ")])]
        out += subcommands(below, sub)
    return out


def command_page(path, section, version, about, description, end, see, more=()):
    name = os.path.basename(path)
    top = Help([path])
    out = header(name, section, version, about)
    out += [".SH SYNOPSIS", f"\\fB{escape(top.usage)}\\fR", ".SH DESCRIPTION", *paragraphs(description or top.summary),
            ".SH OPTIONS", *option_lines(top)]
    below = subcommands([path], top)
    if below:
        out += [".SH COMMANDS", *below]
    for title, lines in top.other_sections():
        out += [f".SH {escape(title.upper().replace('EXIT CODES', 'EXIT STATUS'))}", *verbatim(lines)]
    out += more
    for title, entries in end:
        out.append(f".SH {title}")
        for term, text in entries:
            out += entry(term, text)
    return out + see_also(*see)


def kind_of(schema):
    """What a value may be, in a few words."""
    if "$ref" in schema:
        return "list of " + schema["$ref"].rsplit("/", 1)[-1]
    if "enum" in schema:
        return " | ".join(str(word) for word in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        kinds = [kind_of(choice) for choice in schema.get("anyOf") or schema.get("oneOf")]
        return " or ".join(dict.fromkeys(kinds))
    kind = schema.get("type", "any")
    if kind in ("integer", "number") and "minimum" in schema:
        return f"{kind} from {schema['minimum']} to {schema.get('maximum', 'any')}"
    if kind == "array":
        return "list of " + kind_of(schema.get("items", {}))
    return {"object": "map", "boolean": "true | false", "string": "text"}.get(kind, kind)


def choices(schema):
    """The maps that a value may be: itself, the items of a list, what stands under names, alternatives."""
    if "properties" in schema:
        return [schema]
    if "items" in schema:
        return choices(schema["items"])
    # Maps whose keys are the user's names.
    if isinstance(schema.get("additionalProperties"), dict):
        return choices(schema["additionalProperties"])
    return [m for choice in schema.get("anyOf") or schema.get("oneOf") or [] for m in choices(choice)]


def key_lines(schema, seen=()):
    out = []
    for key, value in schema["properties"].items():
        if key in seen:
            continue
        text = f"({kind_of(value)}"
        if key in schema.get("required", ()):
            text += "; required"
        elif value.get("default") not in (None, []) and not isinstance(value["default"], dict):
            text += f"; default {json.dumps(value['default'])}"
        out += entry(key, f"{value.get('description', '')} {text})".strip())
        below = choices(value)
        tagged = [m for m in below if "enum" in m["properties"].get("type", {})]
        if len(tagged) > 1 and len(tagged) == len(below):
            common = set.intersection(*(set(m["properties"]) for m in tagged)) - {"type"}
            first = {**tagged[0], "properties": {k: v for k, v in tagged[0]["properties"].items() if k in common}}
            out += [".RS", *key_lines(first)]
            for m in tagged:
                own = {k: v for k, v in m["properties"].items() if k not in common and k != "type"}
                out += [".PP", f"With \\fBtype: {escape(m['properties']['type']['enum'][0])}\\fR:",
                        *key_lines({**m, "properties": own})] if own else []
            out += [".RE"]
        else:
            for m in below:
                out += [".RS", *key_lines(m), ".RE"]
    return out


def yaml_page(switch, version):
    schema = json.loads(subprocess.run([switch, "--print-schema"], capture_output=True, text=True, check=True).stdout)
    stages = schema["$defs"]["stages"]["items"]["anyOf"]
    options = next(choice["properties"] for choice in stages if "properties" in choice)
    out = header("weft.yaml", 5, version, "configuration of weft-switch")
    out += [".SH DESCRIPTION", *paragraphs(YAML_ABOUT), ".SH KEYS", *key_lines(schema), ".SH STAGES",
            "Items of \\fBpipeline\\fR: the name of a stage, or a map with the name and its options."]
    for name, stage in options.items():
        out += [f".SS {escape(name)}", escape(stage.get("description", "\\&"))]
        for m in choices(stage):
            out += key_lines(m)
    return out + see_also(("weft-switch", 8), ("weftctl", 1))


def section_of(readme, title):
    """The lines of a section of a README."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", readme, re.S | re.M)[1]


def prose(text):
    """Markdown's paragraphs without its marks; tables become entries."""
    out = []
    for block in text.strip().split("\n\n"):
        rows = re.findall(r"^\| (.*?) \| (.*) \|$", block, re.M)
        if rows:
            out += [line for key, what in rows if key != "key" and not set(key) <= set("-|")
                    for line in entry(key.replace("`", ""), what.replace("`", ""))]
        else:
            out += [".PP", *paragraphs(block.replace("`", ""))]
    return out


def sim_sections(readme):
    """What weft-sim's --help has no room for."""
    return [".SH EXPERIMENT", "A YAML file.", *prose(section_of(readme, "Experiments")), ".SH SUMMARY",
            *prose(section_of(readme, "Summary")), ".SH EXIT STATUS",
            *paragraphs(re.search(r"^Exit codes: (.*)$", readme, re.M)[1]), ".SH FILES",
            *entry("/usr/share/weft/sim", "Experiments to copy from.")]


def flow_sections(readme):
    """What weft-flow's --help has no room for."""
    return [".SH EXPERIMENT", "A YAML file.", *prose(section_of(readme, "Experiments")), ".SH LIMITS",
            *prose(section_of(readme, "Limits")), ".SH EXIT STATUS",
            *paragraphs(re.search(r"^Exit codes: (.*)$", readme, re.M)[1])]


def lab_page(path, version):
    """weft-lab's help comes from argparse, which lays it out for itself."""
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True, timeout=60,
                          env={**os.environ, "COLUMNS": "80"}).stdout
    usage, about, options = re.match(r"usage: (.*?)\n\n(.*?)\n\n(.*)", text, re.S).groups()
    return (header("weft-lab", 1, version, "labs of RNIC hosts and a fabric on one machine") +
            [".SH SYNOPSIS", f"\\fB{escape(' '.join(usage.split()))}\\fR", ".SH DESCRIPTION", escape(about),
             ".SH OPTIONS", *verbatim(options.splitlines()), ".SH FILE",
             *prose(section_of(read(os.path.join(os.path.dirname(path), "README.md")), "The file")), ".SH FILES",
             *entry("/usr/share/weft/conf/labs", "Labs to copy from."),
             *see_also(("weft-switch", 8), ("weft-rnic", 1))])


def main():
    folder, lab, version, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    switch, ctl, rnic, sim, flow, manager, inc, incd = (
        os.path.join(folder, name)
        for name in ("weft-switch", "weftctl", "weft-rnic", "weft-sim", "weft-flow", "weft-inc-manager", "weft-inc",
                     "weft-incd"))
    pages = {
        "weft-switch.8": command_page(switch, 8, version, "software top-of-rack switch for RoCEv2", SWITCH_ABOUT,
                                      SWITCH_END, (("weft.yaml", 5), ("weftctl", 1))),
        "weftctl.1": command_page(ctl, 1, version, "look into a running weft-switch", None, [],
                                  (("weft-switch", 8), ("weft.yaml", 5))),
        "weft-rnic.1": command_page(rnic, 1, version, "software RNIC on a network interface", None, [],
                                    (("weft-switch", 8), ("weftctl", 1))),
        "weft-sim.1": command_page(sim, 1, version, "RoCEv2 experiments in virtual time", None, [],
                                   (("weft-switch", 8), ("weft-lab", 1)),
                                   sim_sections(read(os.path.join(os.path.dirname(lab), "../sim/README.md")))),
        "weft-flow.1": command_page(flow, 1, version, "jobs on a cluster, by policies of in-network collectives", None,
                                    [], (("weft-inc-manager", 8), ("weft-sim", 1)),
                                    flow_sections(read(os.path.join(os.path.dirname(lab), "../flow/README.md")))),
        "weft-inc-manager.8": command_page(manager, 8, version, "manager of in-network collectives", MANAGER_ABOUT, [
            ("FILES", [("/usr/share/weft/conf/inc-manager", "A working configuration with comments.")])],
                                           (("weft-inc", 1), ("weft-switch", 8))),
        "weft-inc.1": command_page(inc, 1, version, "groups of in-network collectives", None, [],
                                   (("weft-inc-manager", 8), ("weft-switch", 8))),
        "weft-incd.8": command_page(incd, 8, version, "daemon of hosts that take part in collectives", INCD_ABOUT, [
            ("ENVIRONMENT", [("NOTIFY_SOCKET", "Set by systemd: readiness goes there.")]),
            ("FILES", [("/run/weft/incd.sock", "Where programs find it; WEFT_INC_SOCKET tells them another place.")])],
                                    (("weft-inc", 1), ("weft-inc-manager", 8))),
        "weft-lab.1": lab_page(lab, version),
        "weft.yaml.5": yaml_page(switch, version),
    }
    agent = os.path.join(folder, "weft-qp-agent")
    if os.path.exists(agent):  # it is built where BPF programs can be
        pages["weft-qp-agent.8"] = command_page(
            agent, 8, version, "tells switches of a host's queue pairs", QP_AGENT_ABOUT,
            [("ENVIRONMENT", [("NOTIFY_SOCKET", "Set by systemd: readiness goes there.")])],
            (("weft-switch", 8), ("weft.yaml", 5)))
    for name, lines in pages.items():
        with open(os.path.join(out, name), "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
