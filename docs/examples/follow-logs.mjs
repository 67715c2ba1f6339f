import WebSocket from 'ws';

// With --once it shows the last lines and ends.
const follow = process.argv.includes('--once') ? 0 : 1;
const url = (process.env.SVC_URL ?? 'http://127.0.0.1:4780').replace(/^http/, 'ws');
const socket = new WebSocket(`${url}/v1/logs?tail=20&follow=${follow}`, {
  headers: { authorization: `Bearer ${process.env.SVC_TOKEN}` },
});

socket.on('message', (line) => console.log(String(line)));
socket.on('close', (code, reason) => {
  if (code !== 1000) console.error(`closed: ${code} ${reason}`);
});
