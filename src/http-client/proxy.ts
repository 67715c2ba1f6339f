import { BlockList, isIP } from 'node:net';

/** The proxies of an environment, each null if absent, by the rules of curl. */
export interface Proxies {
  http: string | null;
  https: string | null;
  /** Whether a request to this address goes to its host directly. */
  isExcepted(url: URL): boolean;
}

/** A variable that names no proxy of ours. It never has the value, which may hold a password. */
export class ProxyRefused extends Error {}

/**
 * Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in small letters or capitals.
 * Throws ProxyRefused.
 */
export function proxiesOf(env: NodeJS.ProcessEnv): Proxies {
  return {
    http: proxyOf(env, 'http_proxy') ?? proxyOf(env, 'all_proxy'),
    https: proxyOf(env, 'https_proxy') ?? proxyOf(env, 'all_proxy'),
    isExcepted: exceptions(variable(env, 'no_proxy')),
  };
}

function variable(env: NodeJS.ProcessEnv, name: string): string {
  return (env[name] ?? env[name.toUpperCase()] ?? '').trim();
}

function proxyOf(env: NodeJS.ProcessEnv, name: string): string | null {
  const value = variable(env, name);
  if (value === '') return null;
  const named = env[name] === undefined ? name.toUpperCase() : name;
  const text = value.includes('://') ? value : `http://${value}`;
  if (!URL.canParse(text))
    throw new ProxyRefused(`The variable ${named} of the environment is not an address.`);
  const { protocol, href } = new URL(text);
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new ProxyRefused(
      `The variable ${named} of the environment names a proxy of the kind ` +
        `${protocol.slice(0, SCHEME_MAX)}//. svc speaks with those of http:// and https://.`,
    );
  return href;
}
const SCHEME_MAX = 20;

/**
 * The exceptions of `no_proxy`: `*`, a name with those below it, an address, or a block such as
 * `10.0.0.0/8` or `10.*`. Each may have a port. Names are not resolved.
 */
function exceptions(text: string): (url: URL) => boolean {
  const rules = text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(ruleOf);
  return (url) => {
    const host = hostOf(url.hostname);
    const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
    return rules.some((rule) => (rule.port === null || rule.port === port) && rule.isHost(host));
  };
}

interface Rule {
  port: number | null;
  isHost(host: string): boolean;
}

function ruleOf(entry: string): Rule {
  const [, bracketed, plain = '', digits] =
    /^(?:\[([^\]]*)\]|([^:]*|.*:.*:.*?))(?::(\d+))?$/.exec(entry) ?? [];
  const isBareV6 = isIP(entry) === 6;
  const host = hostOf(isBareV6 ? entry : (bracketed ?? (plain || entry)));
  return { port: isBareV6 || digits === undefined ? null : Number(digits), isHost: matcher(host) };
}

function matcher(entry: string): Rule['isHost'] {
  if (entry === '*') return () => true;
  const block = blockOf(entry);
  if (block !== null) return (host) => isIP(host) > 0 && block.check(host, familyOf(host));
  const name = entry.replace(/^\*?\./, '');
  return (host) => isIP(host) === 0 && (host === name || host.endsWith(`.${name}`));
}

/** The addresses of an entry. Null: it is a name. */
function blockOf(entry: string): BlockList | null {
  const octets = /^((?:\d{1,3}\.){1,3})\*$/.exec(entry)?.[1]?.split('.').filter(Boolean);
  const written =
    octets === undefined
      ? entry
      : `${[...octets, 0, 0, 0].slice(0, 4).join('.')}/${8 * octets.length}`;
  const [address = '', bits] = written.split('/');
  const family = isIP(address);
  if (family === 0) return null;
  const block = new BlockList();
  const most = family === 6 ? 128 : 32;
  const prefix = bits === undefined ? most : Number(bits);
  if (Number.isInteger(prefix) && prefix >= 0 && prefix <= most)
    block.addSubnet(address, prefix, familyOf(address));
  return block;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** Without brackets and the dot of an absolute name. */
function hostOf(name: string): string {
  return name
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
}
