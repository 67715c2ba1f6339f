import type { Socket } from 'node:net';
import { Allowance } from '../async/allowance.ts';
import { type Clock, SystemClock } from '../async/clock.ts';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';

/**
 * The connections of the gRPC listener. It owns which connections are served, and which stay when
 * there are too many.
 *
 * 1. New connections are served one after the other, at a pace. Each call without a token counts as
 *    one more. So clients that connect again and again do not occupy the daemon. A connection whose
 *    client shows the token gives its turn back.
 * 2. A connection may begin some calls before its client has shown the token. Then it is closed.
 * 3. At most `connections` + `spare_connections` are open. The oldest one that is served without a
 *    token makes room, then the oldest without an authenticated call in progress. Clients without
 *    the token keep as many as there are spare ones. If all of them wait, a new one is refused.
 * 4. A connection with an authenticated call in progress never makes room. There are at most
 *    `connections` of these, and one more call is refused. So the spare ones remain for probes.
 */
export class GrpcConnections {
  private readonly limits: ConnectionLimits;
  private readonly log: Log;
  private readonly clock: Clock;
  /** By peer, oldest first. */
  private readonly places = new Map<string, Place>();
  /** Not served yet, each with what serves it. The next one is first. */
  private readonly waiting = new Map<Place, () => void>();
  /** Served, and without a token so far. */
  private readonly strangers = new Set<Place>();
  /** The other ones without an authenticated call in progress. */
  private readonly idle = new Set<Place>();
  private readonly pace = new Allowance();
  private cancelTurn: () => void = () => {};
  private held = 0;
  private isPaused = false;

  constructor(limits: ConnectionLimits, log: Log, clock: Clock = new SystemClock()) {
    this.limits = limits;
    this.log = log;
    this.clock = clock;
  }

  /** Accepts a connection. `serve` begins to read from it, when its turn has come. */
  take(socket: Socket, serve: () => void): void {
    socket.on('error', (error) => this.log.debug({ err: error }, 'a gRPC connection failed'));
    if (!this.makeRoom()) return void socket.destroy();
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const place = { peer, socket, calls: 0, isKnown: false, begun: new Allowance() };
    this.places.set(peer, place);
    this.waiting.set(place, serve);
    socket.once('close', () => this.forget(place));
    this.admitWaiting();
  }

  /**
   * No turn begins until `work` has ended. Otherwise connections that come meanwhile would all be
   * served at one time after it.
   */
  pauseUntil(work: Promise<unknown>): void {
    this.isPaused = true;
    const goOn = () => {
      this.isPaused = false;
      this.admitWaiting();
    };
    work.then(goOn, goOn);
  }

  /** A call of this peer begins. False if it began too many without a token. */
  begin(peer: string): boolean {
    const place = this.places.get(peer);
    if (place === undefined || place.isKnown) return true;
    const now = this.clock.now();
    this.pace.spend(now, this.limits.newcomer_ms);
    return place.begun.take(now, CALL_MS, this.limits.connection_calls * CALL_MS) === 0;
  }

  /**
   * An authenticated call of this peer begins. It ends when the answer is called. Throws
   * too_many_connections.
   */
  hold(peer: string): () => void {
    const place = this.places.get(peer);
    if (place === undefined) return () => {};
    if (place.calls === 0 && this.held >= this.limits.connections)
      throw new SvcError('too_many_connections', undefined, {
        details: { connections: this.held },
      });
    if (place.calls === 0) this.held += 1;
    place.calls += 1;
    this.strangers.delete(place);
    this.idle.delete(place);
    if (!place.isKnown) {
      place.isKnown = true;
      this.pace.spend(0, -this.limits.newcomer_ms);
      this.admitWaiting();
    }
    return () => {
      place.calls -= 1;
      if (place.calls > 0) return;
      this.held -= 1;
      if (this.places.get(peer) === place) this.idle.add(place);
    };
  }

  /** Closes the connection of this peer at once. */
  cut(peer: string): void {
    this.places.get(peer)?.socket.destroy();
  }

  destroyAll(): void {
    for (const { socket } of this.places.values()) socket.destroy();
  }

  /** Serves those whose turn has come, and looks again when the next one's comes. */
  private admitWaiting(): void {
    this.cancelTurn();
    if (this.isPaused) return;
    const { newcomer_ms } = this.limits;
    for (const [place, serve] of this.waiting) {
      const early = this.pace.take(this.clock.now(), newcomer_ms, NEWCOMERS * newcomer_ms);
      if (early > 0) {
        this.cancelTurn = this.clock.after(early, () => this.admitWaiting());
        return;
      }
      this.waiting.delete(place);
      this.strangers.add(place);
      serve();
    }
  }

  /** True if there is room for one more connection. */
  private makeRoom(): boolean {
    const { connections, spare_connections } = this.limits;
    if (this.places.size < connections + spare_connections) return true;
    const [stranger] = this.strangers;
    const [idle] = this.idle;
    const isFew = this.strangers.size < spare_connections;
    const leaving = isFew ? (idle ?? stranger) : (stranger ?? idle);
    if (leaving === undefined) return false;
    this.log.debug({ connections: this.places.size }, 'the oldest gRPC connection makes room');
    this.forget(leaving);
    leaving.socket.destroy();
    return true;
  }

  private forget(place: Place): void {
    this.waiting.delete(place);
    if (this.waiting.size === 0) this.cancelTurn();
    this.strangers.delete(place);
    this.idle.delete(place);
    if (this.places.get(place.peer) === place) this.places.delete(place.peer);
  }
}

interface Place {
  peer: string;
  socket: Socket;
  /** Authenticated calls in progress. */
  calls: number;
  /** True once an authenticated call began. */
  isKnown: boolean;
  /** The calls that it may begin before. */
  begun: Allowance;
}

type ConnectionLimits = Pick<
  Limits,
  'connections' | 'spare_connections' | 'connection_calls' | 'newcomer_ms'
>;

/** Until a connection without a token may begin one more call. */
const CALL_MS = 100;
/** Connections that may come at once, such as those of a client with several. */
const NEWCOMERS = 16;
