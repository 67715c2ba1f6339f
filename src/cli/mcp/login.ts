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
import { open } from '../console.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { isTerminal, note, print, printJson } from '../terminal/print/output.ts';
import { stopServer } from './logout.ts';

/** Logs the user in at a tool server, in a browser. The daemon then uses the stored tokens. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = ''] = args;
  const config = readMcpFile(mcpFile(paths.config)).servers.get(name);
  if (config === undefined)
    throw new SvcError('mcp_unknown', `There is no tool server ${JSON.stringify(name)}.`);
  const keys = new StoredKeys(paths.keys);
  const key = (keyName: string) => {
    const { id, owner } = mcpKey(name, keyName);
    return keys.read(id, owner);
  };
  const references = { env: process.env, key };
  const launch = await launchOf(config, references, '');
  const { url: server } = launch;
  if (server === null || isAuthorized(launch))
    throw new SvcError('usage', `${name} has no address in mcp.json, or its token is there.`, {
      hint: 'A login is for a server with a url, and without the header Authorization.',
    });
  const { client_id, client_secret: secret } = config;
  // The MCP library warns with texts of the authorization server, which may command a terminal.
  console.warn = () => {};
  const { signIn } = await loadSignIn();
  const notGranted = await signIn({
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
    show: (page) => showPage(page, flags['no-browser'] !== true ? paths.signIn : null),
  });
  const isLoggedIn = notGranted !== null;
  if (!json) print(oneLine(isLoggedIn ? `Logged in at ${name}.` : `${name} asks for no login.`));
  if (isLoggedIn && notGranted.length > 0)
    note(oneLine(`The authorization server did not grant: ${notGranted.join(' ')}.`));
  await stopServer(paths, name);
  const { answer } = await askHome(paths, 'mcp.test', { name }, { timeout_ms: TEST_MS });
  const tools = answer?.tools.length ?? null;
  if (json) printJson({ name, logged_in: isLoggedIn, not_granted: notGranted ?? [], tools });
  else if (tools !== null) note(`Its tools: ${tools}. See: svc mcp show ${name}`);
  return 0;
}

/**
 * Prints the address, and opens it in a browser. The browser gets a private file that leads there,
 * because other users can read the command line of a process.
 */
async function showPage(page: URL, folder: string | null): Promise<void> {
  note(oneLine(`To log in, open this page of ${page.host}:`));
  note(oneLine(page.href));
  const [program, ...words] = isTerminal(2) ? platform.opener(process.env) : [];
  if (program === undefined || folder === null) return;
  const { path } = await writeSignInPage(folder, page.href);
  process.once('exit', () => rmSync(path, { force: true }));
  if (!(await open(program, [...words, pathToFileURL(path).href]))) note('No browser opens.');
}

/** Longer than the largest limit for the start of a tool server. */
const TEST_MS = 3_700_000;
