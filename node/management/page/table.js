// A listing of the API as a table: pages, a filter and an order are the API's work, not the page's.

import { get, path } from "./api.js";
import { count, field, h, input } from "./dom.js";

/**
 * columns: {title, value(row) -> text or element, sort?: the API's name, number?: bool, wide?: bool}.
 * `segments` is the path below /api. Keeps what was typed while the rows are renewed.
 */
export class Listing {
  constructor(what, segments, columns, { query = {}, paged = true } = {}) {
    this.what = what;
    this.segments = segments;
    this.columns = columns;
    this.query = query;
    this.paged = paged;
    this.page = 1;
    this.name = "";
    this.useRegex = false;
    this.sort = "";
    this.reverse = false;
    this.body = h("tbody");
    this.headRow = h("tr");
    this.pages = h("div", { class: "pages" });
    this.told = h("div", { role: "alert" });
    this.element = h(
      "section",
      { class: "card" },
      paged ? this.tools() : null,
      this.told,
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": what },
        h("table", {}, h("thead", {}, this.headRow), this.body),
      ),
      this.pages,
    );
    this.head();
  }

  tools() {
    const filter = input("name", { type: "search", placeholder: "part of the name" });
    const regex = h("input", { type: "checkbox", name: "regex" });
    const apply = () => {
      this.name = filter.value;
      this.useRegex = regex.checked;
      this.page = 1;
      this.again();
    };
    filter.addEventListener("change", apply);
    regex.addEventListener("change", apply);
    const form = h("form", { class: "tools", role: "search" }, field("Filter", filter), h("label", {}, regex, " regular expression"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      apply();
    });
    return form;
  }

  head() {
    this.headRow.replaceChildren(
      ...this.columns.map((column) => {
        const sorted = column.sort && column.sort === this.sort;
        const order = sorted ? (this.reverse ? "descending" : "ascending") : null;
        const content = column.sort
          ? h("button", { type: "button", click: () => this.order(column.sort) }, column.title)
          : column.title;
        const kind = column.number ? "number" : "";
        return h("th", { scope: "col", class: kind, "aria-sort": order }, content);
      }),
    );
  }

  order(sort) {
    this.reverse = this.sort === sort && !this.reverse;
    this.sort = sort;
    this.page = 1;
    this.head();
    this.again();
  }

  /** Renew the rows because somebody asked for others; what is wrong with that is told here. */
  async again() {
    try {
      await this.refresh();
    } catch (error) {
      this.told.replaceChildren(h("span", { class: "note bad" }, error.message));
    }
  }

  async refresh() {
    const query = { ...this.query };
    if (this.paged) {
      Object.assign(query, { page: this.page, page_size: 100, pagination: "true" });
      if (this.name) Object.assign(query, { name: this.name, use_regex: this.useRegex });
    }
    if (this.sort) Object.assign(query, { sort: this.sort, sort_reverse: this.reverse });
    const answer = await get(path(this.segments, query));
    this.told.replaceChildren();
    const rows = Array.isArray(answer) ? answer : answer.items;
    this.show(rows, Array.isArray(answer) ? null : answer);
  }

  show(rows, paging) {
    this.body.replaceChildren(
      ...rows.map((row) =>
        h(
          "tr",
          {},
          this.columns.map((column) => {
            const kind = [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim();
            return h("td", { class: kind }, column.value(row));
          }),
        ),
      ),
    );
    if (!rows.length) {
      const none = h("td", { class: "empty", colspan: this.columns.length }, `no ${this.what}`);
      this.body.replaceChildren(h("tr", {}, none));
    }
    this.pages.replaceChildren(...(paging ? this.turning(paging) : []));
  }

  turning(paging) {
    const to = (page) => () => {
      this.page = page;
      this.again();
    };
    const last = Math.max(1, paging.page_count);
    return [
      h("button", { type: "button", disabled: paging.page <= 1, click: to(paging.page - 1) }, "Previous"),
      `page ${paging.page} of ${last}, ${count(paging.filtered_count)} of ${count(paging.total_count)} ${this.what}`,
      h("button", { type: "button", disabled: paging.page >= last, click: to(paging.page + 1) }, "Next"),
    ];
  }
}

/** A table of rows that are there already. */
export function table(what, columns, rows) {
  const listing = new Listing(what, [], columns.map((column) => ({ ...column, sort: "" })), { paged: false });
  listing.show(rows, null);
  return listing.element;
}
