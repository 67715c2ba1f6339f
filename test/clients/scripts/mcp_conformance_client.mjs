import { spawn } from 'node:child_process';
import { run } from './programs.mjs';

// A person with svc, as the client that the official suite of MCP tries: `node … <address>`. The
// person adds the server, logs in when svc says so, and has a model call each of its tools.
const { SVC_PROGRAM, SVC_HOME_FOLDER, MCP_CONFORMANCE_SCENARIO = '' } = process.env;
const { client_id, client_secret } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const url = process.argv.at(-1);
const name = `suite-${process.pid}`;
const env = { ...process.env, SVC_HOME: SVC_HOME_FOLDER };
/** The document that the suite expects. */
const DOCUMENT = 'https://conformance-test.local/client-metadata.json';
const id = MCP_CONFORMANCE_SCENARIO === 'auth/basic-cimd' ? DOCUMENT : client_id;
const LOGINS_MAX = 5;

const svc = (args, input = '') => run(process.execPath, [SVC_PROGRAM, ...args], { env, input });

await svc([
  'mcp',
  'add',
  name,
  '--url',
  url,
  '--policy',
  'allow',
  ...(id ? ['--client-id', id] : []),
]);
try {
  if (client_secret) await svc(['mcp', 'set', name, '--client-secret'], client_secret);
  const { tools } = JSON.parse(await withLogins(['mcp', 'test', name, '--json']));
  for (const tool of tools)
    await withLogins(['run', '--tools', name, `Call ${name}__${tool.name}`]);
} finally {
  await svc(['mcp', 'remove', name]);
}

/** What the command says, with the logins that it asks for. */
async function withLogins(args) {
  for (let logins = 0; ; logins += 1) {
    const said = await svc(args).catch((thrown) => thrown.said ?? String(thrown));
    if (!said.includes(`svc mcp login ${name}`)) return said;
    if (logins === LOGINS_MAX) throw new Error(`it asks for login after login: ${said}`);
    await logIn();
  }
}

/** Opens the page that svc names, and goes where it leads, as a browser does. */
function logIn() {
  return new Promise((resolve, reject) => {
    const args = [SVC_PROGRAM, 'mcp', 'login', name, '--no-browser'];
    const child = spawn(process.execPath, args, { env });
    let said = '';
    let isOpened = false;
    const read = (text) => {
      said += text;
      const page = /^http\S+$/m.exec(said)?.[0];
      if (page === undefined || isOpened || !said.endsWith('\n')) return;
      isOpened = true;
      void browse(page).catch((error) => reject(error));
    };
    child.stdout.setEncoding('utf8').on('data', read);
    child.stderr.setEncoding('utf8').on('data', read);
    child.once('close', (code) =>
      code === 0 || isOpened ? resolve() : reject(new Error(`no login: ${said}`)),
    );
  });
}

async function browse(page) {
  const leads = await fetch(page, { redirect: 'manual' });
  await fetch(new URL(leads.headers.get('location') ?? '', page));
}
