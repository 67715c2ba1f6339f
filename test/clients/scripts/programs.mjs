import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';

// Runs a program and gives its output, without the movements of its cursor between two pieces. It
// throws the last words of one that fails.
export function run(command, args, { env = {}, cwd, input = '', bound_ms = 240_000 } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env } });
    const timer = setTimeout(() => child.kill('SIGKILL'), bound_ms);
    let said = '';
    for (const source of [child.stdout, child.stderr])
      source.setEncoding('utf8').on('data', (text) => {
        said += text;
      });
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(timer);
      if (code === 0) resolve(stripVTControlCharacters(said));
      else
        reject(
          Object.assign(
            new Error(`it ended with ${code}: ${said.slice(0, 150)} … ${said.slice(-150)}`),
            { said },
          ),
        );
    });
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
