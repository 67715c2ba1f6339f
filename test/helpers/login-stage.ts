import { defaultLimits } from '../../src/limits.ts';
import { type SignInOptions, signIn } from '../../src/tools/sign-in.ts';
import { browse, type LoginServers, loginServers } from './login-servers.ts';
import { bootToolServers } from './tool-servers.ts';

const ends: (() => unknown)[] = [];

/** Ends what a test began. Call it after each test. */
export async function endLogins(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
}

export const endLater = (end: () => unknown) => void ends.push(end);

export const soon = () => AbortSignal.timeout(60_000);
export const call = () => ({ id: 'call_1', signal: soon(), timeout_ms: 30_000 });

/** A place for logins. */
function place() {
  const kept = { text: null as string | null };
  return {
    kept,
    store: {
      read: async () => kept.text,
      write: async (text: string) => {
        kept.text = text;
      },
      remove: async () => {
        const had = kept.text !== null;
        kept.text = null;
        return had;
      },
    },
  };
}

export const saved = (text: string | null) =>
  JSON.parse(Buffer.from(text ?? '', 'base64url').toString() || 'null');

/** The tool server `x` that asks for a login, and what a person does. */
export async function boot({ headers = {} }: { headers?: Record<string, string> } = {}) {
  const remote = await loginServers();
  endLater(() => remote.close());
  const { store, kept } = place();
  const harness = await bootToolServers(
    { x: { url: remote.url, headers } },
    { login: () => store, limits: { mcp_idle_ms: 86_400_000 } },
  );
  endLater(() => harness.leave());
  const login = (more: Partial<SignInOptions> = {}) =>
    signIn({
      name: 'x',
      server: remote.url,
      launch: { command: null, env: {}, cwd: '', url: remote.url, headers, secrets: [] },
      version: '0.0.0',
      client_id: null,
      client_secret: null,
      scope: null,
      port: 0,
      store,
      limits: { ...defaultLimits, mcp_login_ms: 30_000 },
      now: () => harness.clock.now(),
      show: async (page) => void (await browse(page)),
      ...more,
    });
  return { ...harness, remote, store, kept, login };
}

export const tokenRequests = ({ asked }: LoginServers) =>
  asked.filter(({ path }) => path === '/token');
