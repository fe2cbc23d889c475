// A listing of the API as a table: pages, a filter and an order are the API's work, not the page's.

import { get, path } from "./api.js";
import { h, listen } from "./dom.js";
import { choice, field, input } from "./forms.js";
import { patch } from "./patch.js";
import { count, countOf, told } from "./text.js";

const SIZES = ["20", "50", "100", "500"];

/**
 * columns: {title, value(row) -> text or elements, sort?: the API's name, number?, wide?: bool}.
 * `segments` is the path below /api; `keyOf` names a row among the others. One request at a time:
 * what is asked for meanwhile is asked once more at its end. `seen` is handed the rows; a `bare`
 * one has pages, but no filter.
 */
export class Listing {
  constructor(what, segments, columns, options = {}) {
    const { query = {}, paged = true, keyOf = null, size = 100, seen = null } = options;
    Object.assign(this, { what, segments, columns, query, paged, keyOf, size, seen });
    this.page = 1;
    this.name = "";
    this.useRegex = false;
    this.sort = "";
    this.reverse = false;
    this.asked = null; // the request under way
    this.isWanted = false; // once more, when that is answered
    this.body = h("tbody", { role: "rowgroup" });
    this.headRow = h("tr", { role: "row" });
    this.pages = h("div", { class: "pages" });
    this.told = h("div", { role: "alert" });
    this.element = h(
      "section",
      { class: "card", "data-key": what },
      paged && !options.bare ? this.tools() : null,
      this.told,
      this.frame(),
      this.pages,
    );
    this.head();
  }

  frame() {
    const head = h("thead", { role: "rowgroup" }, this.headRow);
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": this.what },
      h("table", { role: "table", "aria-label": this.what }, head, this.body),
    );
  }

  tools() {
    const filter = input("name", { type: "search", placeholder: "part of the name" });
    const regex = h("input", { type: "checkbox", name: "regex" });
    const sizes = choice("size", SIZES, String(this.size));
    const apply = () => {
      this.name = filter.value;
      this.useRegex = regex.checked;
      this.size = Number(sizes.value);
      this.page = 1;
      this.again();
    };
    for (const each of [filter, regex, sizes]) each.addEventListener("change", apply);
    const form = h(
      "form",
      { class: "tools", role: "search", "data-keep": true },
      field("Filter", filter),
      h("label", {}, regex, " regular expression"),
      field("Rows", sizes),
    );
    listen(form, "submit", (event) => {
      event.preventDefault();
      apply();
    });
    return form;
  }

  head() {
    const titles = this.columns.map((column) => {
      const sorted = column.sort && column.sort === this.sort;
      const order = sorted ? (this.reverse ? "descending" : "ascending") : null;
      const content = column.sort
        ? h("button", { type: "button", click: () => this.order(column.sort) }, column.title)
        : column.title;
      const kind = [column.number ? "number" : "", column.sort ? "" : "plain"].join(" ").trim();
      const more = { scope: "col", role: "columnheader", class: kind, "aria-sort": order };
      return h("th", more, content);
    });
    patch(this.headRow, ...titles);
  }

  order(sort) {
    this.reverse = this.sort === sort && !this.reverse;
    this.sort = sort;
    this.page = 1;
    this.head();
    this.again();
  }

  /** Renew the rows on request; an error is shown here. */
  async again() {
    try {
      await this.refresh();
    } catch (error) {
      this.told.replaceChildren(h("span", { class: "note bad" }, error.message));
    }
  }

  refresh() {
    if (this.asked !== null) {
      this.isWanted = true;
      return this.asked;
    }
    this.asked = this.ask().finally(() => {
      this.asked = null;
    });
    return this.asked;
  }

  async ask() {
    let answer;
    let fault;
    do {
      this.isWanted = false;
      fault = null;
      try {
        answer = await get(path(this.segments, this.asking()));
      } catch (error) {
        fault = error;
      }
    } while (this.isWanted);
    if (fault !== null) {
      if (fault.status !== 400 || this.page === 1) throw fault;
      this.page = 1; // the list has become shorter than the page that was shown
      await this.ask();
      return;
    }
    this.told.replaceChildren();
    const rows = Array.isArray(answer) ? answer : answer.items;
    this.show(rows, Array.isArray(answer) ? null : answer);
    if (this.seen) this.seen(rows);
  }

  asking() {
    const query = { ...this.query };
    if (this.paged) {
      Object.assign(query, { page: this.page, page_size: this.size, pagination: "true" });
      if (this.name) Object.assign(query, { name: this.name, use_regex: this.useRegex });
    }
    if (this.sort) Object.assign(query, { sort: this.sort, sort_reverse: this.reverse });
    return query;
  }

  show(rows, paging) {
    const none = () => {
      const cell = h("td", { class: "empty", role: "cell", colspan: this.columns.length });
      cell.append(`no ${this.what}`);
      return h("tr", { role: "row" }, cell);
    };
    patch(this.body, ...(rows.length ? rows.map((row) => this.row(row)) : [none()]));
    patch(this.pages, ...(paging ? this.turning(paging) : []));
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const kind = [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim();
      return h("td", { role: "cell", class: kind, "data-label": column.title }, column.value(row));
    });
    return h("tr", { role: "row", "data-key": this.keyOf ? this.keyOf(row) : null }, cells);
  }

  turning(paging) {
    const to = (page) => () => {
      this.page = page;
      this.again();
    };
    const last = Math.max(1, paging.page_count);
    const figures = `${count(paging.filtered_count)} of ${count(paging.total_count)} ${this.what}`;
    const turn = (label, page, disabled) =>
      h("button", { type: "button", disabled, click: to(page) }, label);
    return [
      turn("Previous", paging.page - 1, paging.page <= 1),
      h("span", {}, `page ${paging.page} of ${last}, ${figures}`),
      turn("Next", paging.page + 1, paging.page >= last),
    ];
  }
}

/** A column of counts, sorted by the API. */
export function counted(title, key) {
  return { title, sort: key, number: true, value: (row) => countOf(row, key) };
}

/** A column of a rate that the API tells. */
export function speed(title, key) {
  const sort = `message_stats.${key}_details.rate`;
  return { title, sort, number: true, value: (row) => told(row.message_stats, key) };
}

/** A table of rows that are there already. */
export function table(what, columns, rows, keyOf = null) {
  const plain = columns.map((column) => ({ ...column, sort: "" }));
  const listing = new Listing(what, [], plain, { paged: false, keyOf });
  listing.show(rows, null);
  return listing.element;
}
