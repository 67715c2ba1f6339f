// Runs commands side by side: node tools/side-by-side.mjs "<command>" "<command>"…
// Each output is shown whole when its command has ended. One that fails makes the whole fail.

import { spawn } from 'node:child_process';

const ends = process.argv.slice(2).map(
  (command) =>
    new Promise((done) => {
      const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] });
      const parts = [];
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (part) => parts.push(part));
      child.on('error', (error) => parts.push(Buffer.from(`${error.message}\n`)));
      child.on('close', (code) => {
        process.stdout.write(Buffer.concat(parts));
        if (code !== 0) process.stdout.write(`FAIL ${command}\n`);
        done(code === 0);
      });
    }),
);
process.exitCode = (await Promise.all(ends)).every(Boolean) ? 0 : 1;
