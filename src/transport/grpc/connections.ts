import type { Socket } from 'node:net';
import { SvcError } from '../../errors.ts';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';

/**
 * The connections of the gRPC listener. It owns which connections stay when there are too many.
 *
 * 1. At most `connections` + `spare_connections` are open. A new connection always gets in, and the
 *    oldest one without an authenticated call in progress makes room.
 * 2. A connection with such a call never makes room. There are at most `connections` of these, and
 *    one more call is refused. So the spare ones remain for probes.
 */
export class GrpcConnections {
  private readonly limits: Pick<Limits, 'connections' | 'spare_connections'>;
  private readonly log: Log;
  /** By peer, oldest first. */
  private readonly places = new Map<string, { socket: Socket; calls: number }>();
  private held = 0;

  constructor(limits: Pick<Limits, 'connections' | 'spare_connections'>, log: Log) {
    this.limits = limits;
    this.log = log;
  }

  take(socket: Socket): void {
    this.makeRoom();
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const place = { socket, calls: 0 };
    this.places.set(peer, place);
    socket.on('error', (error) => this.log.debug({ err: error }, 'a gRPC connection failed'));
    socket.once('close', () => {
      if (this.places.get(peer) === place) this.places.delete(peer);
    });
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
    return () => {
      place.calls -= 1;
      if (place.calls === 0) this.held -= 1;
    };
  }

  /** Closes the connection of this peer at once. */
  cut(peer: string): void {
    this.places.get(peer)?.socket.destroy();
  }

  destroyAll(): void {
    for (const { socket } of this.places.values()) socket.destroy();
  }

  private makeRoom(): void {
    const { connections, spare_connections } = this.limits;
    if (this.places.size < connections + spare_connections) return;
    for (const [peer, { socket, calls }] of this.places) {
      if (calls > 0) continue;
      this.log.debug({ connections: this.places.size }, 'the oldest gRPC connection makes room');
      this.places.delete(peer);
      socket.destroy();
      return;
    }
  }
}
