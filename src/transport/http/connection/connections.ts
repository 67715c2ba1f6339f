import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { isLoopback } from '../../../config/address.ts';
import { SvcError } from '../../../errors.ts';
import type { Limits } from '../../../limits.ts';
import { rawHttpError } from '../../http-error.ts';
import type { Refusal } from '../../refusals.ts';

/**
 * The connections of the HTTP listener. It owns which connections stay when there are too many.
 *
 * 1. At most `connections` + `spare_connections` are open. A new connection always gets in, and
 *    another one makes room.
 * 2. A connection with an authenticated request in progress never makes room. There are at most
 *    `connections` of these, and one more request is refused. So the spare ones remain for health
 *    and for signing in.
 * 3. The connection without a token that idles longest makes room first, then the oldest one
 *    without a token. The last is the one whose authenticated requests ended first. Clients without
 *    a token keep as many as there are spare ones.
 * 4. A remote address has at most `address_connections` without a token. Its next one replaces an
 *    older one of that address. Loopback has no share, since all local clients have the same
 *    address.
 * 5. A connection has at most `open_requests` requests without a sent answer.
 * 6. A connection counts from its first byte on. Over TLS its handshake is like an unanswered
 *    request without a token.
 */
export interface Connections {
  /** Open connections. */
  count(): number;
  /**
   * Accepts a new connection, and closes another when there are too many. One whose TLS handshake
   * is still to come is `endHandshake` after it.
   */
  take(socket: Peer, isHandshaking?: boolean): void;
  /** The handshake of a connection is over. From now on this socket reads and writes. */
  endHandshake(socket: Peer): void;
  /** A request begins. It ends when its response closes. */
  begin(socket: Duplex, response: ServerResponse): void;
  /** True if one more request on this connection is too many. */
  isFull(socket: Duplex): boolean;
  /**
   * The connection does authenticated work until the returned function is called. Throws
   * too_many_connections.
   */
  hold(socket: Duplex): () => void;
  /** The response to the latest request of a connection. */
  latest(socket: Duplex): ServerResponse | undefined;
  destroyAll(): void;
}

type Peer = Duplex & { remoteAddress?: string | undefined; remotePort?: number | undefined };

interface Place {
  socket: Duplex;
  /** What the connection has until its handshake is over; null without one. */
  peer: string | null;
  /** Null for a client of this machine. */
  remote: string | null;
  latest: ServerResponse | undefined;
  open: number;
  held: number;
  isKnown: boolean;
  group: Set<Place> | null;
}

type ConnectionLimits = Pick<
  Limits,
  'connections' | 'spare_connections' | 'address_connections' | 'open_requests'
>;

export function createConnections(
  limits: ConnectionLimits,
  onRefused: (kind: Refusal) => void,
): Connections {
  const places = new Map<Duplex, Place>();
  /** Connections with a handshake in progress. */
  const handshakes = new Map<string, Place>();
  /**
   * Candidates to make room. A set keeps the order of insertion, so the first one waits longest.
   */
  const groups = { idle: new Set<Place>(), busy: new Set<Place>(), known: new Set<Place>() };
  let held = 0;

  const settle = (place: Place) => {
    if (!places.has(place.socket)) return;
    const group = groupOf(place);
    if (group === place.group) return;
    place.group?.delete(place);
    group?.add(place);
    place.group = group;
  };
  const groupOf = ({ held, isKnown, open, latest }: Place) => {
    if (held > 0) return null;
    if (isKnown) return groups.known;
    return open === 0 && latest !== undefined ? groups.idle : groups.busy;
  };
  const forget = (place: Place) => {
    places.delete(place.socket);
    if (place.peer !== null && handshakes.get(place.peer) === place) handshakes.delete(place.peer);
    place.group?.delete(place);
    place.group = null;
  };
  const close = (place: Place, kind: Refusal) => {
    forget(place);
    onRefused(kind);
    // The system takes so small an answer at once, unless bytes are unsent. Then the client reads
    // nothing anyway.
    if (place.peer === null && isUnanswered(place) && place.socket.writableLength === 0)
      place.socket.write(NO_ROOM);
    place.socket.destroy();
  };
  const longestWaiting = (): Place | undefined => {
    const { idle, busy, known } = groups;
    const order = busy.size < limits.spare_connections ? [idle, known, busy] : [idle, busy, known];
    return order.map(first).find((place) => place !== undefined);
  };
  const ownOf = (remote: string): Place | undefined => {
    const own = [...groups.idle, ...groups.busy].filter((place) => place.remote === remote);
    return own.length < limits.address_connections ? undefined : own[0];
  };

  return {
    count: () => places.size,
    take(socket, isHandshaking = false) {
      const { remoteAddress } = socket;
      const remote =
        remoteAddress === undefined || isLoopback(remoteAddress.replace(/^::ffff:/i, ''))
          ? null
          : remoteAddress;
      const own = remote === null ? undefined : ownOf(remote);
      const leaving =
        own ??
        (places.size < limits.connections + limits.spare_connections
          ? undefined
          : longestWaiting());
      if (leaving !== undefined)
        close(leaving, own === undefined ? 'closed_for_room' : 'address_share');
      const place: Place = {
        socket,
        peer: isHandshaking ? peerOf(socket) : null,
        remote,
        latest: undefined,
        open: 0,
        held: 0,
        isKnown: false,
        group: null,
      };
      places.set(socket, place);
      if (place.peer !== null) handshakes.set(place.peer, place);
      settle(place);
      socket.once('close', () => forget(place));
    },
    endHandshake(socket) {
      const place = handshakes.get(peerOf(socket));
      if (place === undefined) return;
      handshakes.delete(peerOf(socket));
      places.delete(place.socket);
      places.set(socket, place);
      [place.socket, place.peer] = [socket, null];
    },
    begin(socket, response) {
      const place = places.get(socket);
      if (place === undefined) return;
      place.open += 1;
      place.latest = response;
      settle(place);
      response.once('close', () => {
        place.open -= 1;
        settle(place);
      });
    },
    isFull: (socket) => (places.get(socket)?.open ?? 0) >= limits.open_requests,
    hold(socket) {
      const place = places.get(socket);
      if (place === undefined || socket.destroyed) return () => {};
      if (place.held === 0 && held >= limits.connections)
        throw new SvcError('too_many_connections', undefined, { details: { connections: held } });
      if (place.held === 0) held += 1;
      place.held += 1;
      place.isKnown = true;
      settle(place);
      return () => {
        place.held -= 1;
        if (place.held === 0) held -= 1;
        settle(place);
      };
    },
    latest: (socket) => places.get(socket)?.latest,
    destroyAll() {
      for (const socket of places.keys()) socket.destroy();
    },
  };
}

function peerOf({ remoteAddress, remotePort }: Peer): string {
  return `${remoteAddress} ${remotePort}`;
}

function first(group: Set<Place>): Place | undefined {
  return group.values().next().value;
}

/**
 * True if an answer may bypass the responses: for a first request that has no answer yet, or for
 * none.
 */
function isUnanswered({ open, latest }: Place): boolean {
  return latest === undefined || (open === 1 && !latest.headersSent);
}

const NO_ROOM = rawHttpError(new SvcError('too_many_connections'));
