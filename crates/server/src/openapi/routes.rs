//! Routes that say what they are. There is no way to add one without its description.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post};

use super::Call;
use crate::serve::App;

/// Routes and what each of them is.
pub(crate) struct Routes {
    /// What those have in common that are added next.
    group: &'static str,
    router: Router<App>,
    pub(super) described: Vec<Described>,
}

/// What a method of a path is.
pub(super) struct Described {
    pub(super) group: &'static str,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) call: Call,
}

impl Routes {
    /// No routes yet, of a group that descriptions are ordered by.
    pub(crate) fn of(group: &'static str) -> Self {
        Self { group, router: Router::new(), described: Vec::new() }
    }

    pub(crate) fn get<T: 'static>(
        self,
        path: &'static str,
        handler: impl Handler<T, App>,
        call: Call,
    ) -> Self {
        self.with(Method::GET, path, get(handler), call)
    }

    pub(crate) fn post<T: 'static>(
        self,
        path: &'static str,
        handler: impl Handler<T, App>,
        call: Call,
    ) -> Self {
        self.with(Method::POST, path, post(handler), call)
    }

    pub(crate) fn delete<T: 'static>(
        self,
        path: &'static str,
        handler: impl Handler<T, App>,
        call: Call,
    ) -> Self {
        self.with(Method::DELETE, path, delete(handler), call)
    }

    fn with(mut self, method: Method, path: &'static str, route: MethodRouter<App>, call: Call) -> Self {
        self.described.push(Described { group: self.group, method, path, call });
        Self { router: self.router.route(path, route), ..self }
    }

    /// These and the others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.described.extend(others.described);
        Self { router: self.router.merge(others.router), ..self }
    }

    /// The ids of all calls, in the order that they were added in.
    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.described.iter().map(|described| described.call.id).collect()
    }

    /// The routes without their descriptions.
    pub(crate) fn into_router(self) -> Router<App> {
        self.router
    }
}
