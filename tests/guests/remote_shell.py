# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Shell commands that are a remote shell: mpirun starts its daemons on other hosts by one."""

# By default socat ends a shell half a second after the shell's input has ended. A guest that takes longer to start a
# program then never starts it, and nobody hears of that.
_SHELL_S = 86_400


def server(port, shell="/bin/sh"):
    """A command that gives everybody who connects a shell, which goes on until its command has ended."""
    return f"exec socat -t {_SHELL_S} TCP-LISTEN:{port},fork,reuseaddr EXEC:{shell}"


def client(port):
    """A script whose arguments are a host and a command that runs there; it ends when the command has."""
    return f'#!/bin/sh\nhost=$1\nshift\necho "$*" | socat -t {_SHELL_S} - TCP:$host:{port}\n'
