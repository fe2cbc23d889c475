// What the user has chosen: in the address behind #, so that it can be shared and outlives a
// reload, or kept in this browser. `#/queues?vhost=%2F&sort=messages` is the view /queues.

/** Of the address now: the path of the view, and what is chosen there. */
export function here() {
  const [where, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { where: where || "/", given: new URLSearchParams(query) };
}

export function chosen(name, otherwise = "") {
  return here().given.get(name) ?? otherwise;
}

/** Note choices in the address; an empty one is taken out. The view goes on. */
export function choose(values) {
  const { where, given } = here();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null) given.delete(name);
    else given.set(name, String(value));
  }
  const text = given.toString();
  history.replaceState(null, "", `#${where}${text ? `?${text}` : ""}`);
}

/** Kept in this browser for all views, and in the address of those that are open. */
export class Kept {
  constructor(name, otherwise, storage = localStorage) {
    Object.assign(this, { name, otherwise, storage });
  }

  get value() {
    return chosen(this.name, this.storage.getItem(`warren.${this.name}`) ?? this.otherwise);
  }

  set value(text) {
    if (text === this.otherwise) this.storage.removeItem(`warren.${this.name}`);
    else this.storage.setItem(`warren.${this.name}`, text);
    this.show();
  }

  /** In the address, where it is not what it would be without. */
  show() {
    const text = this.storage.getItem(`warren.${this.name}`) ?? this.otherwise;
    choose({ [this.name]: text === this.otherwise ? "" : text });
  }

  /** The address comes first: what it says is kept from now on. */
  adopt() {
    const given = chosen(this.name, null);
    if (given === null) this.show();
    else this.value = given;
  }
}

export const VHOST = new Kept("vhost", "", sessionStorage); // "": all
export const EVERY = new Kept("every", ""); // seconds between two looks; "": as the view has it
export const RANGE = new Kept("range", "600"); // seconds that charts show

/** The path below /api of a list: of the vhost that is chosen, or of all. */
export function ofVhost(all, one) {
  return VHOST.value === "" ? all : one(VHOST.value);
}

/** Make the view again, as it is chosen now. */
export function showAgain() {
  dispatchEvent(new Event("hashchange"));
}
