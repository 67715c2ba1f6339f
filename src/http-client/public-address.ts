import { lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/**
 * Resolves the name of a connection, once: a name that changes its address between a check and the
 * request gains nothing. One address that is not allowed refuses the name.
 */
export function lookupOf(
  isAllowed: (address: string) => boolean,
  refusal: (name: string) => Error,
  lookup: typeof systemLookup = systemLookup,
): LookupFunction {
  return (name, how, done) =>
    lookup(name, { ...how, all: true }, (error, found) => {
      const wrong = found?.find(({ address }) => !isAllowed(address));
      const [first] = found ?? [];
      if (error !== null) done(error, [], 0);
      else if (wrong !== undefined || first === undefined) done(refusal(name), [], 0);
      else if (how.all === true) done(null, found);
      else done(null, first.address, first.family);
    });
}

/** Whether an address is one of the Internet, and not of this machine or of a network around it. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !INNER_4.check(address);
  return family === 6 && GLOBAL_6.check(address, 'ipv6') && !INNER_6.check(address, 'ipv6');
}

function listOf(family: 'ipv4' | 'ipv6', networks: string): BlockList {
  const list = new BlockList();
  for (const network of networks.split(/\s+/)) {
    const [address = '', bits] = network.split('/');
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Of the registry of special addresses (RFC 6890), and multicast. */
const INNER_4 = listOf(
  'ipv4',
  `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
  192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
  224.0.0.0/3`,
);
/** All other blocks are local, are multicast, or embed an IPv4 address. */
const GLOBAL_6 = listOf('ipv6', '2000::/3');
const INNER_6 = listOf('ipv6', '2001::/23 2001:db8::/32 2002::/16 3fff::/20');
