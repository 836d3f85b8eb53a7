// What does a dashboard look like, with the answers of a real Prometheus?

import { createElement as h, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import {
  applyFieldOverrides, createTheme, dateTime, EventBusSrv, getFieldDisplayValues, Registry, ThemeContext, VizOrientation,
} from "@grafana/data";
import { BarGauge, BigValue, PanelChrome, PanelContextProvider, Table, TimeSeries, VizRepeater } from "@grafana/ui";
import { frames } from "./frames.js";

const [file, mode = "dark"] = location.hash.slice(1).split(",");
const theme = createTheme({ colors: { mode } });
const WIDTH = 1560, CELL = 30, GAP = 8;
const COLUMN = (WIDTH - GAP) / 24;

// Without these, units and colours of the dashboard are silently left out.
const property = (path, isCustom) => ({
  id: isCustom ? `custom.${path}` : path, path, isCustom, name: path,
  process: (value) => value, shouldApply: () => true, getItemsCount: () => 1,
});
const registry = new Registry(() => [
  ...["unit", "min", "max", "decimals", "displayName", "color", "mappings", "thresholds", "noValue", "links"].map((it) => property(it, false)),
  ...["drawStyle", "lineWidth", "fillOpacity", "showPoints", "spanNulls", "axisSoftMin", "stacking", "thresholdsStyle",
    "lineStyle", "width", "cellOptions"].map((it) => property(it, true)),
]);

const plain = (text) => text;
const apply = (data, fieldConfig) =>
  applyFieldOverrides({ data, fieldConfig, theme, replaceVariables: plain, fieldConfigRegistry: registry, timeZone: "utc" });

const nothing = (panel, size) => h("div", {
  style: { ...size, display: "grid", placeItems: "center", color: theme.colors.text.secondary },
}, panel.fieldConfig.defaults.noValue ?? "No data");

function lines(panel, data, size, { from, to, marks }) {
  if (!data.length) return nothing(panel, size);
  const timeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: dateTime(from * 1000), to: dateTime(to * 1000) } };
  return h(TimeSeries, {
    frames: data, ...size, timeRange, timeZone: "utc", legend: panel.options.legend, options: panel.options,
  }, (builder) => {
    builder.addHook("draw", (plot) => {
      const { ctx, bbox } = plot;
      for (const { color, times } of marks) {
        ctx.strokeStyle = theme.visualization.getColorByName(color);
        ctx.setLineDash([4, 4]);
        times.filter((at, i) => i === 0 || at - times[i - 1] > 1.5).forEach((at) => {
          const x = plot.valToPos(at * 1000, "x", true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        });
        ctx.setLineDash([]);
      }
    });
    return null;
  });
}

const shown = (panel, data) => getFieldDisplayValues({
  fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: plain, theme, data,
  sparkline: panel.options.graphMode === "area", timeZone: "utc",
});

const repeated = (panel, data, size, orientation, render) => h(VizRepeater, {
  ...size, getValues: () => shown(panel, data), renderValue: render, source: data, renderCounter: 1, orientation,
  autoGrid: false, minVizHeight: 16, maxVizHeight: 300, minVizWidth: 8, itemSpacing: 8,
});

const bars = (panel, data, size) => repeated(panel, data, size, VizOrientation.Horizontal,
  ({ value, width, height, orientation, count }) => h(BarGauge, {
    value: value.display, width, height, orientation, theme, field: value.field, display: value.view?.getFieldDisplayProcessor(value.colIndex),
    displayMode: panel.options.displayMode, showUnfilled: true, valueDisplayMode: panel.options.valueMode,
    itemSpacing: 8, lcdCellWidth: 12, alignmentFactors: undefined, text: panel.options.text, namePlacement: "auto", key: value.name, isOverflow: count > 8,
  }));

const stat = (panel, data, size) => repeated(panel, data, size, VizOrientation.Vertical,
  ({ value, width, height, count }) => h(BigValue, {
    value: value.display, width, height, theme, count, colorMode: panel.options.colorMode, graphMode: panel.options.graphMode,
    justifyMode: panel.options.justifyMode, textMode: panel.options.textMode, sparkline: value.sparkline,
  }));

const table = (panel, data, size) =>
  data[0]?.length ? h(Table, { data: data[0], ...size, columnMinWidth: 70, cellHeight: "sm", initialSortBy: panel.options.sortBy }) : nothing(panel, size);

const KINDS = { timeseries: lines, stat, bargauge: bars, table };

function Panel({ panel, story }) {
  const [data, set] = useState();
  useEffect(() => { frames(panel, story.answers, story).then((made) => set(apply(made, panel.fieldConfig))); }, []);
  const { x, y, w, h: tall } = panel.gridPos;
  const place = {
    position: "absolute", left: GAP + x * COLUMN, top: GAP + y * (CELL + GAP), width: w * COLUMN - GAP, height: tall * (CELL + GAP) - GAP,
  };
  if (panel.type === "row") {
    return h("div", { style: { ...place, fontSize: 16, fontWeight: 500, color: theme.colors.text.primary, paddingTop: 6 } }, `⌄ ${panel.title}`);
  }
  return h("div", { style: place }, h(PanelChrome, {
    title: panel.title, description: panel.description, width: place.width, height: place.height, padding: panel.type === "stat" ? "none" : "md",
  }, (width, height) => data && KINDS[panel.type](panel, data, { width, height }, story)));
}

function Variables({ story }) {
  const boxes = [["Data source", "Prometheus"], ["Job", story.chosen.job], ["Instance", "All"],
    ...(story.chosen.limit ? [["Limit", story.chosen.limit]] : []), ...(story.chosen.upstream ? [["Upstream", story.chosen.upstream]] : []),
    ...(story.dashboard.uid === "weir-overview" ? [["Limit", "All"]] : [])];
  return h("div", { style: { padding: "12px 8px 4px", display: "flex", gap: 12, color: theme.colors.text.primary } },
    h("b", { style: { fontSize: 18, marginRight: 12 } }, story.dashboard.title),
    boxes.map(([label, value], i) => h("span", { key: i, style: { border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, fontSize: 12, lineHeight: "24px" } },
      h("span", { style: { padding: "0 8px", background: theme.colors.background.secondary } }, label),
      h("span", { style: { padding: "0 8px" } }, value))));
}

function Dashboard({ story }) {
  const panels = story.dashboard.panels;
  const height = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * (CELL + GAP) + GAP;
  return h("div", null, h(Variables, { story }),
    h("div", { style: { position: "relative", width: WIDTH, height } },
      panels.map((panel) => h(Panel, { key: panel.id, panel, story }))));
}

const context = { eventsScope: "global", eventBus: new EventBusSrv() };

fetch(`/stories/${file}.json`).then((answer) => answer.json()).then((story) => {
  document.body.style.background = theme.colors.background.canvas;
  document.body.style.color = theme.colors.text.primary;
  document.body.style.width = `${WIDTH}px`;
  createRoot(document.getElementById("root")).render(
    h(ThemeContext.Provider, { value: theme }, h(PanelContextProvider, { value: context }, h(Dashboard, { story }))));
  setTimeout(() => document.body.setAttribute("data-drawn", ""), 2500);
});
