// Preloaded before the server: it listens on loopback only, whatever it asks for, and tells the port that it got.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.find((argument) => typeof argument === "function");
  this.once("listening", () => console.log(`LISTENING ${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, done);
};
