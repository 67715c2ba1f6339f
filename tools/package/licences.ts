import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command } from './command.ts';
import { type Part, partOf, section } from './part.ts';
import type { Platform } from './platforms.ts';
import { filesBelow } from './stage.ts';

/** The parts of CycloneDX that are read or changed here. */
interface Bom {
  serialNumber?: string;
  metadata: { timestamp?: string; component: { 'bom-ref': string } };
  components: { name: string; version: string; [field: string]: unknown }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/**
 * Writes the licences of all that the archive has into one file. Throws for a package without one.
 */
export function writeLicences(root: string): void {
  const node = readFileSync(join(root, 'lib', 'node.LICENSE'), 'utf8').trim();
  const own = readFileSync('LICENSE', 'utf8').trim();
  const library = readFileSync(join(root, LIBRARY, 'LICENSES.txt'), 'utf8').trim();
  const parts = installedParts(root).map((part) => part.section);
  const all = [section('svc', [own]), section('Node.js', [node]), library, ...parts];
  writeFileSync(join(root, 'LICENSES.txt'), `${all.join('\n\n')}\n`);
}

function installedParts(root: string): Part[] {
  const modules = join(root, 'lib', 'svc', 'node_modules');
  return filesBelow(modules)
    .filter((file) => /(^|\/node_modules\/)(@[^/]+\/)?[^/]+\/package\.json$/.test(file))
    .map((file) => partOf(join(modules, file, '..')));
}

/** Files of a package that the program has: see tools/build.mjs. */
const LIBRARY = 'lib/svc/dist/src/engine/node-llama-cpp';

/**
 * Writes the bill of materials of the archive, in CycloneDX. npm makes it from the lock file; its
 * random number and time become ones that two builds share. Returns its file.
 */
export function writeBom(root: string, { node, os, cpu }: Platform, epoch_s: number): string {
  const cwd = join(root, 'lib', 'svc');
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const bom: Bom = JSON.parse(command('npm', args, { cwd }));
  const bundled: Pick<Part, 'name' | 'version'>[] = JSON.parse(
    readFileSync(join(root, LIBRARY, 'packages.json'), 'utf8'),
  );
  const parts = new Set(
    [...bundled, ...installedParts(root)].map((part) => `${part.name} ${part.version}`),
  );
  bom.components = bom.components
    .filter(({ name, version }) => parts.has(`${name} ${version}`))
    // The library of the engine is for development in the lock file, and part of the program here.
    .map(({ properties: _, ...part }) => part);
  const [, version = ''] = node.name.split('@');
  const ref = `pkg:generic/node@${version}?os=${os}&arch=${cpu}`;
  bom.components.push({
    'bom-ref': ref,
    type: 'platform',
    name: 'node',
    version,
    purl: ref,
    licenses: [{ license: { id: 'MIT' } }],
  });
  const refs = new Set(bom.components.map((part) => part['bom-ref']));
  const isThere = (to: string) => refs.has(to) || to === bom.metadata.component['bom-ref'];
  bom.dependencies = bom.dependencies
    .filter((one) => isThere(one.ref))
    .map((one) => ({ ref: one.ref, dependsOn: one.dependsOn.filter(isThere) }));
  delete bom.serialNumber;
  bom.metadata.timestamp = new Date(epoch_s * 1000).toISOString();
  const id = createHash('sha256').update(JSON.stringify(bom)).digest('hex');
  const uuid = id.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, '$1-$2-5$3-8$4-$5');
  const text = JSON.stringify({ ...bom, serialNumber: `urn:uuid:${uuid}` }, null, 2);
  const file = join(root, 'sbom.cdx.json');
  writeFileSync(file, `${text}\n`);
  return file;
}
