import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { serviceSeconds } from '../../src/cli/upkeep/service/service.ts';
import { unitText } from '../../src/cli/upkeep/service/systemd.ts';
import { ALLOCATOR } from '../../src/home/allocator.ts';
import { defaultLimits } from '../../src/limits.ts';
import { command } from './command.ts';
import type { Platform } from './platforms.ts';

export interface SystemPackageOptions {
  platform: Platform;
  /** The folder of the archive. */
  root: string;
  scratch: string;
  version: string;
  epoch_s: number;
  out: string;
}

/** A file or a folder of a package, as nfpm names it. */
interface Content {
  src?: string;
  dst: string;
  type?: string;
  mode?: number;
}

/** They keep the modes that they have. Those of other files are of who makes the package. */
const HAVE_MODES: ReadonlySet<string> = new Set(['tree', 'symlink']);
const PLACE = '/usr/lib/svc';
const FILES = join(import.meta.dirname, 'files');

/** Makes a package for Debian and one for Red Hat with nfpm. Returns their files. */
export function makeSystemPackages(options: SystemPackageOptions): string[] {
  return (['deb', 'rpm'] as const).map((kind) => make(kind, options));
}

function make(kind: 'deb' | 'rpm', options: SystemPackageOptions): string {
  const { platform, root, scratch, version, epoch_s, out } = options;
  const share = join(scratch, `share-${kind}`);
  mkdirSync(share);
  const put = (name: string, text: string | Buffer) => {
    writeFileSync(join(share, name), text);
    return join(share, name);
  };
  writeFileSync(join(root, 'lib', 'svc', 'installed'), `${kind}\n`);
  const doc = '/usr/share/doc/svc';
  const man = readFileSync(join(root, 'share/man/man1/svc.1'));
  const text = kind === 'rpm' ? { type: 'doc' } : {};
  const contents: Content[] = [
    // An RPM package removes only the folders that it names.
    ...[PLACE, `${PLACE}/bin`, doc].map((dst) => ({ dst, type: 'dir', mode: 0o755 })),
    { src: join(root, 'lib'), dst: `${PLACE}/lib`, type: 'tree' },
    { src: join(root, 'bin/svc'), dst: `${PLACE}/bin/svc`, mode: 0o755 },
    { src: '../lib/svc/bin/svc', dst: '/usr/bin/svc', type: 'symlink' },
    { src: put('svc.1.gz', zipped(man)), dst: '/usr/share/man/man1/svc.1.gz', ...text },
    { src: join(root, 'share/bash-completion'), dst: '/usr/share/bash-completion', type: 'tree' },
    { src: join(root, 'share/zsh'), dst: '/usr/share/zsh', type: 'tree' },
    { src: join(root, 'share/fish'), dst: '/usr/share/fish', type: 'tree' },
    { src: put('user.service', userUnit()), dst: '/usr/lib/systemd/user/svc.service' },
    { src: put('system.service', systemUnit()), dst: '/usr/lib/systemd/system/svc.service' },
    { src: join(FILES, 'sysusers.conf'), dst: '/usr/lib/sysusers.d/svc.conf' },
    { src: put('copyright', copyright()), dst: `${doc}/copyright`, ...text },
    { src: join(root, 'LICENSES.txt'), dst: `${doc}/LICENSES.txt`, ...text },
    { src: join(root, 'sbom.cdx.json'), dst: `${doc}/sbom.cdx.json`, ...text },
    ...(kind === 'deb'
      ? [
          { src: join(FILES, 'lintian-overrides'), dst: '/usr/share/lintian/overrides/svc' },
          {
            src: put('changelog.gz', zipped(changelog(version, epoch_s))),
            dst: `${doc}/changelog.gz`,
          },
        ]
      : []),
  ];
  const mtime = new Date(epoch_s * 1000).toISOString();
  const config = {
    name: 'svc',
    arch: platform[kind],
    platform: platform.os,
    version,
    mtime,
    section: 'net',
    priority: 'optional',
    maintainer: MAINTAINER,
    description: DESCRIPTION,
    license: 'MIT',
    contents: contents.map(({ mode = 0o644, ...content }) =>
      HAVE_MODES.has(content.type ?? '') ? content : { ...content, file_info: { mode } },
    ),
    depends: kind === 'deb' ? ['libc6 (>= 2.28)', 'libstdc++6'] : ['glibc >= 2.28', 'libstdc++'],
    scripts: { postinstall: join(FILES, 'postinstall.sh'), preremove: join(FILES, 'preremove.sh') },
    rpm: { summary: DESCRIPTION.split('\n')[0], buildhost: 'localhost' },
  };
  const file = join(out, `svc-${version}-${platform.os}-${platform.cpu}.${kind}`);
  const args = ['package', '-f', put('nfpm.json', JSON.stringify(config)), '-p', kind, '-t', file];
  command('nfpm', args, { env: { SOURCE_DATE_EPOCH: String(epoch_s) } });
  return file;
}

/** Who publishes the packages. */
const MAINTAINER = process.env.MAINTAINER ?? 'The maintainers of svc <svc@localhost>';
const DESCRIPTION = `local AI runtime daemon
It answers prompts with local or cloud models, over HTTP, gRPC and
WebSocket, and keeps every fact in a durable log.`;

/** Service of each user: systemctl --user enable --now svc. */
export function userUnit(): string {
  // systemd puts the folder of the user there. A path of a user has no such names.
  return unit({}, '%h/.config/svc/service.env').replace('%%h', '%h');
}

/** Service of the machine, under the account svc. */
export function systemUnit(): string {
  const account = ['User=svc', 'Group=svc', 'StateDirectory=svc', 'StateDirectoryMode=0700'];
  return unit({ SVC_HOME: '/var/lib/svc' }, '/etc/svc/service.env')
    .replace('[Unit]\n', '[Unit]\nAfter=network-online.target\nWants=network-online.target\n')
    .replace(
      '[Service]\n',
      `[Service]\n${account.join('\n')}\nProtectSystem=full\nPrivateTmp=yes\n`,
    )
    .replace('default.target', 'multi-user.target');
}

function unit(env: Readonly<Record<string, string>>, envFile: string): string {
  return unitText({
    command: [`${PLACE}/lib/node`, `${PLACE}/lib/svc/dist/src/main.js`, 'serve'],
    env: { ...ALLOCATOR, ...env },
    envFile,
    ...serviceSeconds(defaultLimits),
    stderr: '',
  });
}

function copyright(): string {
  return `${readFileSync('LICENSE', 'utf8').trim()}\n\nNode.js and the packages that come with it: LICENSES.txt beside this file.\n`;
}

/** The form that Debian asks for. What users must know is in CHANGELOG.md. */
function changelog(version: string, epoch_s: number): string {
  const time = new Date(epoch_s * 1000).toUTCString().replace('GMT', '+0000');
  return `svc (${version}) unstable; urgency=medium\n\n  * Version ${version}.\n\n -- ${MAINTAINER}  ${time}\n`;
}

/** The same bytes for the same text: the header has no time and no name. */
function zipped(text: string | Buffer): Buffer {
  return gzipSync(text, { level: 9 });
}
