# Runs a program and gives its output.
import subprocess


def run(*command, env=None, cwd=None, input=None, seconds=300):
    done = subprocess.run(command, env=env, cwd=cwd, input=input, capture_output=True, text=True, timeout=seconds)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"it ended with {done.returncode}: {said[-250:]}"
    return said
