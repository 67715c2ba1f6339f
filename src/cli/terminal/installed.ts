import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { packageRoot } from '../../home/paths.ts';

/** How a program came to its place, and the commands that replace and remove it. */
interface Way {
  words: string;
  upgrade: string;
  /** `<root>` is the folder that the user unpacked or cloned. */
  remove: string;
}

const WAYS = {
  package: {
    words: 'installed by npm',
    upgrade: 'npm install --global <package of the new version> && svc restart',
    remove: 'npm uninstall --global svc',
  },
  npx: {
    words: 'in the cache of npx',
    upgrade: 'npx <package of the new version> restart',
    remove: 'npm cache npx rm',
  },
  checkout: {
    words: 'a checkout of its source',
    upgrade: 'git pull && npm install && npx svc restart',
    remove: 'rm -r <root>',
  },
  archive: {
    words: 'installed from its archive',
    upgrade: 'svc upgrade <archive of the new version>',
    remove: '<root>/install.sh --uninstall',
  },
  deb: {
    words: 'a Debian package',
    upgrade: 'sudo apt install ./<package of the new version>.deb && svc restart',
    remove: 'sudo apt remove svc',
  },
  image: {
    words: 'a container image',
    upgrade: 'docker run <image of the new version, with the same volume>',
    remove: 'docker rm <container>',
  },
  rpm: {
    words: 'an RPM package',
    upgrade: 'sudo dnf install ./<package of the new version>.rpm && svc restart',
    remove: 'sudo dnf remove svc',
  },
} as const satisfies Record<string, Way>;

export type Installed = keyof typeof WAYS;

interface Place extends Way {
  installed: Installed;
  /** The folder with `current` and `previous`, which install.sh of an archive makes. */
  home: string | null;
}

/** The installation that has this program file, which is `dist/src/main.js` of it. */
export function installationOf(program: string): Place {
  const root = packageRoot();
  const installed = installedBy(program, root);
  const way = WAYS[installed];
  if (installed !== 'archive')
    return { installed, ...way, home: null, remove: way.remove.replace('<root>', root) };
  const folder = resolve(root, '..', '..');
  const versions = dirname(folder);
  const home = basename(versions) === 'versions' ? dirname(versions) : null;
  const remove = way.remove.replace('<root>', home ?? folder);
  // A folder that was only unpacked, or installed before 1.0.0.
  const upgrade = home === null ? '<folder of the new archive>/install.sh' : way.upgrade;
  return { installed, ...way, home, remove, upgrade };
}

/** A path of a file of this version that stays valid after an upgrade, for a service. */
export function lastingPath(file: string, { home }: Pick<Place, 'home'>): string {
  if (home === null) return file;
  const [, inside] = file.slice(join(home, 'versions').length + 1).match(/^[^/]+\/(.*)$/) ?? [];
  return inside === undefined ? file : join(home, 'current', inside);
}

function installedBy(program: string, root: string): Installed {
  if (program.includes(`${sep}_npx${sep}`)) return 'npx';
  if (program.includes(`${sep}node_modules${sep}`)) return 'package';
  // Packages that are made for a system say so beside package.json.
  const mark = join(root, 'installed');
  const name = existsSync(mark) ? readFileSync(mark, 'utf8').trim() : 'checkout';
  return Object.keys(WAYS).find((way): way is Installed => way === name) ?? 'checkout';
}
