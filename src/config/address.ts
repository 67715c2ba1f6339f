import { SvcError } from '../errors.ts';

/** True for a loopback name or number, with or without brackets. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '');
  return (
    bare === 'localhost' || bare === '::1' || /^127(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/.test(bare)
  );
}

/** Host and port of an address; null if it is malformed. */
export function parseAddress(text: string): { host: string; port: number } | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  return match !== null && port <= 65_535 ? { host: match[1] ?? match[2] ?? '', port } : null;
}

/** Refuses HTTP that other machines reach without a token, and all gRPC. Throws address_refused. */
export function refuseOpenBind(config: { auth: boolean; http: string; grpc: string }): void {
  for (const [name, address] of Object.entries({ http: config.http, grpc: config.grpc })) {
    const host = parseAddress(address)?.host ?? '';
    if (isLoopback(host) || (name === 'http' && config.auth)) continue;
    const why =
      name === 'grpc' ? 'gRPC has no TLS, so it listens on loopback only' : 'authentication is off';
    throw new SvcError(
      'address_refused',
      `${address} can be reached from other machines, and ${why}.`,
      { param: name },
    );
  }
}
