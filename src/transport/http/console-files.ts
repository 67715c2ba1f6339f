import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { machines } from '../../../machines/all.ts';
import { meaningsOf } from '../../../machines/describe.ts';
import { PROMPT_PLACE } from '../../config/presets.ts';
import { mediaSignatures, numberFields } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import { type Context, type Route, route } from './route.ts';
import {
  STATIC_HEADERS,
  type StaticFile,
  sendFile,
  staticAnswers,
  staticFile,
} from './static-file.ts';

/**
 * The console's page, its files, and the library that reads Markdown. They are read once, and no
 * other file is served.
 */

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json; charset=utf-8',
  '.png': 'image/png',
};
const PAGE = 'index.html';
const WORKER = 'worker.js';
/** Files of packages, by the name that the page loads. The page has no build step. */
const LIBRARIES: Readonly<Record<string, string>> = { 'marked.js': 'marked' };
/** The page loads our own files only, nothing inline, and sends requests only to us. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const files = new Map([
  ...readFiles(fileURLToPath(new URL('../../console', import.meta.url))),
  ...readLibraries(),
  runFields(),
  meanings(),
]);
files.set(WORKER, workerOf(files));

export const consoleRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/',
    access: 'public',
    summary:
      'The console: a page for all this. `svc console` opens it signed in. ' +
      'Other clients get one line of text.',
    headers: ['Accept', ...STATIC_HEADERS],
    answers: {
      ...staticAnswers('text/html'),
      200: [{ type: 'text/html' }, { type: 'text/plain' }],
    },
    answer: showConsole,
  }),
  route({
    method: 'GET',
    path: '/console/*',
    access: 'public',
    summary: 'The files of the console.',
    headers: STATIC_HEADERS,
    answers: staticAnswers('*/*'),
    answer: showConsoleFile,
  }),
];

/** A browser asks for the page by its type. Programs ask whether anything answers here. */
function showConsole({ req, res }: Context): void {
  res.appendHeader('Vary', 'Accept');
  const isBrowser = req.headers.accept?.includes('text/html') === true;
  sendFile(req, res, isBrowser ? consoleFile(PAGE) : RUNNING, POLICY);
}

const RUNNING = staticFile('text/plain; charset=utf-8', Buffer.from('svc is running\n'));

function showConsoleFile({ req, res }: Context): void {
  const { '*': file = '' } = req.params as Record<string, string | undefined>;
  // The page is not below the folder of its worker.
  if (file === WORKER) res.setHeader('Service-Worker-Allowed', '/');
  sendFile(req, res, consoleFile(file === PAGE ? '' : file), POLICY);
}

export function consoleFile(name: string): StaticFile {
  const file = files.get(name);
  if (file === undefined)
    throw new SvcError(
      'route_unknown',
      `The console has no file ${JSON.stringify(name.slice(0, 80))}.`,
    );
  return file;
}

/** The files of the folder that browsers may load, by their path in it. */
export function readFiles(folder: string): ReadonlyMap<string, StaticFile> {
  const found = new Map<string, StaticFile>();
  const names = existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
    : [];
  for (const name of names) {
    const type = TYPES[extname(name)];
    if (type !== undefined)
      found.set(name.replaceAll(sep, '/'), staticFile(type, readFileSync(join(folder, name))));
  }
  return found;
}

/** What a request may hold, from the table that all others read. */
function runFields(): [string, StaticFile] {
  const media = Object.entries(mediaSignatures).map(([type, { source }]) => [type, source]);
  const fields = {
    numbers: numberFields,
    media: Object.fromEntries(media),
    prompt_place: PROMPT_PLACE,
  };
  return ['run-fields.json', staticFile(TYPES['.json'] ?? '', Buffer.from(JSON.stringify(fields)))];
}

/** What the states of the machines mean, as the charts say it. */
function meanings(): [string, StaticFile] {
  const all = Object.fromEntries(machines.map((machine) => [machine.id, meaningsOf(machine)]));
  const code = `export const meanings = ${JSON.stringify(all)};\n`;
  return ['meanings.js', staticFile(TYPES['.js'] ?? '', Buffer.from(code))];
}

/** A map of sources is not served, so no file names one. */
function readLibraries(): [string, StaticFile][] {
  return Object.entries(LIBRARIES).map(([name, entry]) => {
    const text = readFileSync(fileURLToPath(import.meta.resolve(entry)), 'utf8');
    const code = text.replace(/^\/\/# sourceMappingURL=.*$/m, '');
    return [name, staticFile(TYPES['.js'] ?? '', Buffer.from(code))];
  });
}

/**
 * The worker with the digests of all files. It keeps no other bytes than these. A new build has
 * other digests, so the browser takes it for another worker.
 */
function workerOf(all: ReadonlyMap<string, StaticFile>): StaticFile {
  const digests = [...all].flatMap(([name, { content }]) =>
    name === WORKER
      ? []
      : [
          [
            name === PAGE ? '/' : `/console/${name}`,
            `sha256-${createHash('sha256').update(content).digest('base64')}`,
          ],
        ],
  );
  const code = all.get(WORKER)?.content ?? '';
  return staticFile(
    TYPES['.js'] ?? '',
    Buffer.from(`self.FILES = ${JSON.stringify(Object.fromEntries(digests))};\n${code}`),
  );
}
