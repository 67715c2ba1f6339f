import { rmSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { mcpKey, mcpLogin, StoredKeys } from '../../config/keys/stored-keys.ts';
import { mcpFile, readMcpFile } from '../../config/mcp-file.ts';
import { SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';
import { programVersion } from '../../home/version.ts';
import { defaultLimits } from '../../limits.ts';
import { oneLine } from '../../logs/plain.ts';
import { isAuthorized, launchOf, loadSignIn, withValues } from '../../tools/index.ts';
import { writeSignInPage } from '../../transport/auth/sign-in-page.ts';
import { askHome } from '../connect/home.ts';
import { open } from '../console.ts';
import type { Context } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { isTerminal, note, print, printJson } from '../print/output.ts';
import { stopServer } from './logout.ts';

/** A person logs in at a tool server, with a browser. The daemon uses the stored tokens then. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = ''] = args;
  const config = readMcpFile(mcpFile(paths.config)).servers.get(name);
  if (config === undefined)
    throw new SvcError('mcp_unknown', `There is no tool server ${JSON.stringify(name)}.`);
  const keys = new StoredKeys(paths.keys);
  const key = (each: string) => keys.read(mcpKey(name, each).id, mcpKey(name, each).owner);
  const references = { env: process.env, key };
  const launch = await launchOf(config, references, '');
  const { url: server } = launch;
  if (server === null || isAuthorized(launch))
    throw new SvcError('usage', `${name} has no address in mcp.json, or its token is there.`, {
      hint: 'A login is for a server with a url, and without the header Authorization.',
    });
  const { client_id, client_secret: secret } = config;
  // Its warnings have words of the authorization server.
  console.warn = () => {};
  const { signIn } = await loadSignIn();
  const missing = await signIn({
    name,
    server,
    launch,
    version: programVersion(),
    client_id,
    client_secret: secret === null ? null : await withValues(secret, references),
    scope: textFlag(flags, 'scope') ?? null,
    port: config.login_port,
    store: mcpLogin(keys, name),
    limits: defaultLimits,
    now: Date.now,
    show: (page) => show(page, flags['no-browser'] !== true ? paths.signIn : null),
  });
  const isNeeded = missing !== null;
  if (!json) print(oneLine(isNeeded ? `Logged in at ${name}.` : `${name} asks for no login.`));
  if (isNeeded && missing.length > 0)
    note(oneLine(`The authorization server did not grant: ${missing.join(' ')}.`));
  await stopServer(paths, name);
  const { answer } = await askHome(paths, 'mcp.test', { name }, { timeout_ms: TEST_MS });
  const tools = answer?.tools.length ?? null;
  if (json) printJson({ name, logged_in: isNeeded, not_granted: missing ?? [], tools });
  else if (tools !== null) note(`Its tools: ${tools}. See: svc mcp show ${name}`);
  return 0;
}

/** The browser opens a private file that leads there: others can read a command line. */
async function show(page: URL, folder: string | null): Promise<void> {
  note(oneLine(`To log in, open this page of ${page.host}:`));
  note(oneLine(page.href));
  const [program, ...words] = isTerminal(2) ? platform.opener(process.env) : [];
  if (program === undefined || folder === null) return;
  const { path } = await writeSignInPage(folder, page.href);
  process.once('exit', () => rmSync(path, { force: true }));
  if (!(await open(program, [...words, pathToFileURL(path).href]))) note('No browser opens.');
}

/** Above the limit for a start. */
const TEST_MS = 3_700_000;
