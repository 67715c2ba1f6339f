import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { homeFiles, homeProblems } from '../../src/daemon/home-files.ts';
import { findPaths } from '../../src/home/paths.ts';

/**
 * Damages each path of the list in each way, and says what is wrong with the home then. It runs
 * without the right of root to use any file.
 */
const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  unreadable: (path) => {
    writeFileSync(path, '');
    chmodSync(path, 0);
  },
  folder: (path) => mkdirSync(path),
  loop: (path) => symlinkSync(basename(path), path),
  lost: (path) => symlinkSync(join('nowhere', 'file'), path),
  empty: (path) => writeFileSync(path, ''),
  cut: (path) => writeFileSync(path, '{"tokens": [{"name": "a'),
  garbage: (path) => writeFileSync(path, Buffer.from([0xff, 0, 1, 2])),
};

const found: { name: string; damage: string; problems: object[] }[] = [];
for (const isShared of [false, true])
  for (const [damage, put] of Object.entries(DAMAGES)) {
    const home = mkdtempSync(join(tmpdir(), 'svc-files-'));
    const paths = findPaths({ SVC_HOME: home });
    for (const { path } of homeFiles(paths, isShared)) {
      if (path === paths.home || path === paths.data) continue;
      mkdirSync(dirname(path), { recursive: true });
      put(path);
      const problems = (await homeProblems(paths, isShared)).map((problem) => ({
        ...problem,
        message: problem.message.replaceAll(home, '~'),
        hint: problem.hint.replaceAll(home, '~'),
        path: relative(home, problem.path),
      }));
      found.push({ name: relative(home, path), damage, problems });
      rmSync(path, { recursive: true, force: true });
    }
    rmSync(home, { recursive: true, force: true });
  }
console.log(JSON.stringify(found));
