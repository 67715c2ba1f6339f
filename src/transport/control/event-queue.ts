import type { Socket } from 'node:net';

const EVENTS_WAITING_MAX = 1024;

/**
 * Events that the caller has not read yet. Too many of them pause the socket, with all its
 * requests.
 */
export class EventQueue<E> implements AsyncIterator<E, undefined> {
  private readonly socket: Socket;
  private readonly waiting: E[] = [];
  private taker: ((step: IteratorResult<E, undefined>) => void) | null = null;
  private over = false;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  push(event: E): void {
    if (this.over) return;
    if (this.taker === null) {
      if (this.waiting.push(event) === EVENTS_WAITING_MAX) this.socket.pause();
      return;
    }
    this.taker({ done: false, value: event });
    this.taker = null;
  }

  end(): void {
    this.over = true;
    this.taker?.({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<E, undefined>> {
    const value = this.waiting.shift();
    if (value !== undefined) {
      if (this.waiting.length === 0) this.socket.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.over) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.taker = resolve;
    });
  }

  async return(): Promise<IteratorResult<E, undefined>> {
    this.waiting.length = 0;
    this.over = true;
    this.socket.resume();
    return { done: true, value: undefined };
  }
}
