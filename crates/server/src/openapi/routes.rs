//! A router whose routes carry their descriptions: none can be added without one.

use std::mem;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post};

use super::Operation;
use crate::app::AppState;

/// Routes with their descriptions.
pub(crate) struct Routes {
    /// The OpenAPI tag of the routes that are added next.
    group: &'static str,
    router: Router<AppState>,
    pub(super) described: Vec<DescribedRoute>,
}

/// A route's method, path and description.
pub(super) struct DescribedRoute {
    pub(super) group: &'static str,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) operation: Operation,
}

impl Routes {
    /// An empty set of routes with this OpenAPI tag.
    pub(crate) fn tagged(group: &'static str) -> Self {
        Self { group, router: Router::new(), described: Vec::new() }
    }

    pub(crate) fn get<T: 'static>(
        &mut self,
        path: &'static str,
        handler: impl Handler<T, AppState>,
        operation: Operation,
    ) {
        self.add(Method::GET, path, get(handler), operation);
    }

    pub(crate) fn post<T: 'static>(
        &mut self,
        path: &'static str,
        handler: impl Handler<T, AppState>,
        operation: Operation,
    ) {
        self.add(Method::POST, path, post(handler), operation);
    }

    pub(crate) fn delete<T: 'static>(
        &mut self,
        path: &'static str,
        handler: impl Handler<T, AppState>,
        operation: Operation,
    ) {
        self.add(Method::DELETE, path, delete(handler), operation);
    }

    fn add(
        &mut self,
        method: Method,
        path: &'static str,
        route: MethodRouter<AppState>,
        operation: Operation,
    ) {
        self.described.push(DescribedRoute { group: self.group, method, path, operation });
        self.router = mem::take(&mut self.router).route(path, route);
    }

    /// Adds the routes of another group.
    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.described.extend(others.described);
        Self { router: self.router.merge(others.router), ..self }
    }

    /// The ids of all operations, in the order in which they were added.
    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.described.iter().map(|described| described.operation.id).collect()
    }

    /// The routes without their descriptions.
    pub(crate) fn into_router(self) -> Router<AppState> {
        self.router
    }
}
