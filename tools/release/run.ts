import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { command, sayFailures } from '../package/command.ts';
import { notesOf } from './notes.ts';

const USAGE = `npm run release -- [options]

  --out FOLDER    where the files go; dist/package without it
  --platform P    only this platform, as in npm run package
  --skip-tests    the tests of this commit have passed already
  --no-tag        make no tag

It does the steps of a release that need no account: checks, tests, packages with their digests and
lists of parts, the notes of the version, and the tag. Then it prints the steps of the publisher.`;

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: 'dist/package' },
    platform: { type: 'string', multiple: true, default: [] },
    'skip-tests': { type: 'boolean', default: false },
    'no-tag': { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit();
}

sayFailures();
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const out = resolve(values.out);
const tag = `v${version}`;
type Step = readonly [name: string, work: () => void];
const steps: readonly Step[] = [
  ['the commit is whole', refuseChanges],
  ['the changelog names the version', () => void notes()],
  ['types and lint', () => npm('check')],
  // They build the program too.
  ...(values['skip-tests'] ? [] : ([['tests', () => npm('test')]] as Step[])),
  [
    'packages',
    () => npm('package', '--out', out, ...values.platform.flatMap((p) => ['--platform', p])),
  ],
  ['notes', () => writeFileSync(join(out, 'NOTES.md'), `${notes()}\n`)],
  ...(values['no-tag'] ? [] : ([[`the tag ${tag}`, makeTag]] as Step[])),
];
for (const [name, step] of steps) {
  const started = performance.now();
  console.log(`${name} …`);
  step();
  console.log(`  ${((performance.now() - started) / 1000).toFixed(0)} s`);
}
console.log(`
${out} has the files. What is left needs an account or a key, and is yours:

  tools/package/sign.sh ${out} <key of gpg>
  ${values['no-tag'] ? `git tag --annotate ${tag} --message "svc ${version}"\n  ` : ''}git push origin ${tag}
  upload the files of ${out}, with NOTES.md as the text of the release
  npm publish --tag ${version.includes('-') ? 'next' : 'latest'}      # package.json is private until then
  tools/package/image.sh ${join(out, `svc-${version}-linux-x64.tar.gz`)} svc-image.tar`);

function npm(script: string, ...args: string[]): void {
  command('npm', ['run', '--silent', script, ...(args.length > 0 ? ['--', ...args] : [])]);
}

function notes(): string {
  return notesOf(readFileSync('CHANGELOG.md', 'utf8'), version);
}

/** The files are those of a commit, and no tag of this name is of another one. */
function refuseChanges(): void {
  const changed = command('git', ['status', '--porcelain', '--untracked-files=no']).trim();
  if (changed !== '') throw new Error(`Commit these changes first:\n${changed}`);
  const tagged = command('git', ['tag', '--list', tag, '--format=%(objectname) %(*objectname)']);
  const head = command('git', ['rev-parse', 'HEAD']).trim();
  if (tagged.trim() !== '' && !tagged.includes(head))
    throw new Error(`The tag ${tag} is of another commit. Choose another version.`);
}

function makeTag(): void {
  if (command('git', ['tag', '--list', tag]).trim() === '')
    command('git', ['tag', '--annotate', tag, '--message', `svc ${version}`]);
}
