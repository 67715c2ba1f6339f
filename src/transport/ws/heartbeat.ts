import type { WebSocket } from 'ws';

/**
 * Pings at each interval, and ends a connection that misses two pongs. Returns a function that
 * marks the peer as alive.
 */
export function keepAlive(socket: WebSocket, every_ms: number): () => void {
  let unanswered = 0;
  const timer = setInterval(() => {
    // Its pongs are not read meanwhile.
    if (socket.isPaused) return;
    if (unanswered === 2) return socket.terminate();
    unanswered += 1;
    socket.ping();
  }, every_ms);
  const heard = () => {
    unanswered = 0;
  };
  socket.on('pong', heard);
  socket.once('close', () => clearInterval(timer));
  return heard;
}
