import { request } from 'node:http';
import { WebSocketServer } from 'ws';

/**
 * The floor of the followers: `bare-broadcast.ts UPSTREAM`. At its first input it asks the
 * upstream, and sends each piece to each client, without a log. While it sends, it hardly accepts
 * connections, so all clients come before. A client with more than a megabyte unsent gets no more.
 */
const UNSENT_MAX = 1024 * 1024;
const [upstream = ''] = process.argv.slice(2);
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
server.on('listening', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null) process.stdout.write(`${address.port}\n`);
});
let seq = 0;
process.stdin.once('data', () => {
  request(`${upstream}/chat/completions`, { method: 'POST' }, (response) => {
    response.setEncoding('utf8').on('data', (text: string) => {
      seq += 1;
      const message = JSON.stringify({ seq, type: 'run.output_appended', at: Date.now(), text });
      for (const client of server.clients)
        if (client.bufferedAmount < UNSENT_MAX) client.send(message);
    });
  }).end('{}');
});
