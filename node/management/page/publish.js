// Publishing one message from the page.

import { path, post } from "./api.js";
import { fold, tag } from "./dom.js";
import { area, choice, field, form, input, parseObject } from "./forms.js";

/** Into an exchange; '' is the default one. Says whether it was routed anywhere. */
export function publisher(vhost, exchange, routingKey = "") {
  const fields = [
    field("Routing key", input("routing_key", { value: routingKey })),
    field("Delivery mode", choice("delivery_mode", [["2", "persistent"], ["1", "transient"]], "2")),
    field("Payload is", choice("encoding", [["string", "text"], ["base64", "base64"]], "string")),
    area("headers", "Headers (JSON)", 1),
    area("properties", "Properties (JSON)", 1),
    area("payload", "Payload", 4),
  ];
  const act = async (values) => {
    const properties = parseObject(values.properties);
    properties.delivery_mode = Number(values.delivery_mode);
    const headers = parseObject(values.headers);
    if (Object.keys(headers).length) properties.headers = headers;
    const isRouted = await publish(vhost, exchange, {
      routing_key: values.routing_key,
      properties,
      payload: values.payload,
      payload_encoding: values.encoding,
    });
    return isRouted ? tag("published", "good") : tag("published, and routed nowhere", "warn");
  };
  return fold("Publish message", form(fields, "Publish message", act));
}

/** Whether the message was routed to a queue. */
async function publish(vhost, exchange, message) {
  const where = path(["exchanges", vhost, exchange || "amq.default", "publish"]);
  return (await post(where, message)).routed;
}
